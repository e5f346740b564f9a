#include "cli/train/metrics_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <poll.h>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/core.h>
#include <keel/core/base/json.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>

namespace keel_cli {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(250);
constexpr size_t kEnough = size_t{1} << 16;  // bytes that are worth a write before the period ends
constexpr size_t kMost = size_t{1} << 24;    // bytes that wait; then the training does
constexpr int kPollMs = 100;
// How long a full pipe is waited for once the training is to stop.
constexpr int kMostPollsWhenStopping = 20;

keel::Error metrics_error(const std::string& path, const std::string& message,
                          const std::string& fix = "") {
  return keel::Error({.op = "--metrics", .argument = path, .message = message, .fix = fix});
}

std::string reason(int code) { return std::generic_category().message(code); }

template <class Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Says how much of a metrics file is kept when a training goes on after `steps_done` steps: all up
// to the line of that step, or before the first line of a later one. A power failure may leave a
// last line without its newline; that line is kept only if it is a whole line of metrics.
struct KeptLines {
  off_t bytes = 0;         // the length of the part that is kept
  int64_t taken_out = 0;   // the number of lines behind that part, a torn last one aside
  bool lacks_end = false;  // whether its last line has no newline yet
  bool complete = false;   // whether its last line is that of the step
};

constexpr std::string_view kLineStart = "{\"step\":";

// Says whether a line may be the beginning of one of metrics. The last line of somebody's notes may
// lack its newline, too.
bool begins_like_metrics(std::string_view line) {
  return line.starts_with(kLineStart) || kLineStart.starts_with(line);
}

// The object of a line; null where it is none.
keel::Json object_in(const std::string& line, const std::string& path) {
  try {
    keel::Json value = keel::parse_json(line, path);
    return value.is_object() ? value : keel::Json();
  } catch (const keel::Error&) {
    return {};
  }
}

std::optional<int64_t> step_in(const keel::Json& object) {
  const auto step = object.is_object() ? object.find("step") : object.end();
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<int64_t>();
}

KeptLines kept_lines(const std::string& path, int64_t steps_done) {
  // Longer ones are no lines of metrics, and need not be held.
  constexpr size_t kMostOfLine = 4096;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw metrics_error(path, "cannot be read, so that nobody knows where to go on in it",
                        "make it readable, or give another file");
  KeptLines kept;
  std::string line;
  off_t at = 0;
  int64_t number = 0;
  const auto end_line = [&](bool whole) {
    ++number;
    const keel::Json object = line.size() < kMostOfLine ? object_in(line, path) : keel::Json();
    const auto step = step_in(object);
    const bool torn = !whole && !object.is_object();
    // A power failure may leave anything behind the line of the step.
    if (kept.complete || kept.taken_out > 0 || (step && *step > steps_done)) {
      if (!torn || kept.taken_out > 0) ++kept.taken_out;
    } else if (!step && !(torn && begins_like_metrics(line))) {
      throw metrics_error(path, fmt::format("line {} is none of metrics", number),
                          "give the file that the training wrote, or another one");
    } else if (!torn) {
      kept.bytes = at;
      kept.lacks_end = !whole;
      kept.complete = step == steps_done;
    }
    line.clear();
  };
  const auto next = [&] {
    try {
      return file.rdbuf()->sbumpc();
    } catch (const std::ios_base::failure& failure) {
      throw metrics_error(path, "cannot be read: " + failure.code().message(),
                          "make it readable, or give another file");
    }
  };
  for (int c = next(); c != std::char_traits<char>::eof(); c = next()) {
    ++at;
    if (c == '\n')
      end_line(/*whole=*/true);
    else if (line.size() < kMostOfLine)
      line += static_cast<char>(c);
  }
  if (!line.empty()) end_line(/*whole=*/false);
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, int64_t steps_done, MetricsFileEvents events)
    : path_(path), events_(std::move(events)) {
  if (path_.empty()) return;
  try {
    open(steps_done);
    start_writer();
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

MetricsFile::~MetricsFile() { end(); }

void MetricsFile::open(int64_t steps_done) {
  // Opening a pipe without O_NONBLOCK would wait for its reader.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  descriptor_ = retry([&] { return ::open(path_.c_str(), kFlags, 0666); });
  struct stat status {};
  if (descriptor_ < 0 && errno == ENXIO && ::stat(path_.c_str(), &status) == 0 &&
      S_ISFIFO(status.st_mode))
    throw metrics_error(path_, "is a pipe that nobody reads", "start its reader first");
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0)
    throw metrics_error(path_, "cannot be written: " + reason(errno));
  regular_ = S_ISREG(status.st_mode);
  if (!regular_) return;
  lock();
  find_end(steps_done);
}

// Reading the file may throw system_error, too, which is none of the thread's.
void MetricsFile::start_writer() {
  try {
    writer_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw metrics_error(path_, std::string("no thread can be started for it: ") + error.what());
  }
}

void MetricsFile::find_end(int64_t steps_done) {
  const KeptLines kept = steps_done > 0 ? kept_lines(path_, steps_done) : KeptLines{};
  kept_bytes_ = kept.bytes;
  lacks_newline_ = kept.lacks_end;
  lines_taken_out_ = kept.taken_out;
  lacks_last_step_ = kept.bytes > 0 && !kept.complete;
}

// False where it cannot be cut.
bool MetricsFile::cut() {
  if (!kept_bytes_) return true;
  const off_t bytes = *std::exchange(kept_bytes_, std::nullopt);
  if (retry([&] { return ::ftruncate(descriptor_, bytes); }) == 0) return true;
  fail(errno);
  return false;
}

void MetricsFile::lock() const {
  if (retry([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0) return;
  // Some file systems have no locks.
  if (errno != EWOULDBLOCK) return;
  throw metrics_error(path_, "another process writes it", "give each training a file of its own");
}

void MetricsFile::write(int64_t step, int64_t epoch, double loss, uint32_t float_status,
                        const StepScale* scale, const std::string& precision) {
  if (!writer_.joinable()) return;
  std::string line = std::string(kLineStart) + std::to_string(step) +
                     ",\"epoch\":" + std::to_string(epoch) +
                     ",\"loss\":" + keel::format_float(static_cast<float>(loss));
  if (!precision.empty()) line += ",\"precision\":\"" + precision + "\"";
  if (scale != nullptr) {
    line += ",\"loss_scale\":" + keel::format_float(static_cast<float>(scale->scale));
    if (scale->skipped) line += ",\"skipped\":true";
  }
  if (float_status != 0)
    line += ",\"float_status\":\"" + keel::describe_float_status(float_status) + "\"";
  line += "}\n";
  std::unique_lock<std::mutex> lock(mutex_);
  if (failed_) return;
  lines_ += line;
  handed_over_ += static_cast<int64_t>(line.size());
  if (lines_.size() < kEnough) return;
  changed_.notify_all();
  while (lines_.size() > kMost && !failed_ && !events_.stopping()) changed_.wait_for(lock, kPeriod);
}

void MetricsFile::sync() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!writer_.joinable() || !regular_) return;
    const int64_t all = handed_over_;
    awaited_ = std::max(awaited_, all);
    changed_.notify_all();
    changed_.wait(lock, [&] { return failed_ || written_ >= all; });
    if (failed_) return;
  }
  if (retry([&] { return ::fdatasync(descriptor_); }) != 0)
    throw metrics_error(path_, "may not outlive a power failure: " + reason(errno));
}

void MetricsFile::close(bool through) {
  if (!writer_.joinable()) return;
  through_ = through;
  // A file system over the network may tell of a full disk only now.
  if (end() != 0 && errno != EINTR && !failed_) fail(errno);
}

// Returns what closing the file gave.
int MetricsFile::end() {
  if (!writer_.joinable()) return 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  writer_.join();
  return ::close(std::exchange(descriptor_, -1));
}

void MetricsFile::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait_for(lock, kPeriod,
                      [&] { return closing_ || lines_.size() >= kEnough || written_ < awaited_; });
    const bool last = closing_;
    std::string lines;
    lines.swap(lines_);
    lock.unlock();
    const auto count = static_cast<int64_t>(lines.size());
    const bool written = put(std::move(lines), last);
    lock.lock();
    written_ += count;
    if (!written) {
      failed_ = true;
      lines_.clear();
    }
    changed_.notify_all();
    if (!written || last) return;
  }
}

// Cuts the file for its first lines, and at the end of a training that is through. False where
// that, or a write, fails.
bool MetricsFile::put(std::string lines, bool last) {
  if (lines.empty()) return !last || !through_ || cut();
  if (kept_bytes_ && lacks_newline_) lines.insert(0, 1, '\n');
  return cut() && write_whole(lines);
}

// A regular file never keeps a part of a line.
bool MetricsFile::write_whole(const std::string& lines) {
  const off_t begin = regular_ ? ::lseek(descriptor_, 0, SEEK_END) : 0;
  size_t done = 0;
  while (done < lines.size()) {
    const ssize_t count =
        retry([&] { return ::write(descriptor_, lines.data() + done, lines.size() - done); });
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {
      if (!wait_for_room()) return false;
    } else {
      const int code = errno;
      const size_t line_end = lines.rfind('\n', done == 0 ? 0 : done - 1);
      const size_t whole = done == 0 || line_end == std::string::npos ? 0 : line_end + 1;
      if (regular_ && begin >= 0) {
        static_cast<void>(
            retry([&] { return ::ftruncate(descriptor_, begin + static_cast<off_t>(whole)); }));
      }
      fail(code);
      return false;
    }
  }
  return true;
}

// False where the training is to stop and the reader does not read.
bool MetricsFile::wait_for_room() {
  for (int polls = 0; polls < kMostPollsWhenStopping;) {
    pollfd file{descriptor_, POLLOUT, 0};
    if (::poll(&file, 1, kPollMs) > 0) return true;  // room, or an error that write() will name
    if (events_.stopping()) ++polls;
  }
  events_.on_failure(metrics_error(path_, "its reader has stopped reading; lines are missing"));
  return false;
}

void MetricsFile::fail(int code) {
  if (code == EPIPE) {
    events_.on_closed_pipe();
    return;
  }
  events_.on_failure(metrics_error(
      path_, "cannot be written: " + reason(code) + "; the training goes on without it"));
}

}  // namespace keel_cli
