#include "keel/graph/runtime/summary_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fcntl.h>
#include <optional>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>
#include <sys/file.h>

#include "keel/core/base/csv.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/file_size_signal.h"
#include "keel/core/base/json.h"
#include "keel/core/base/printable.h"
#include "keel/core/base/read_budget.h"

namespace keel {
namespace {

constexpr std::string_view kObjectStart = "{\"step\": ";
constexpr std::string_view kObjectsEnd = "\n]\n";
constexpr std::string_view kNoObjects = "[\n]\n";
constexpr size_t kReadAtOnce = size_t{1} << 16;
// So much is shown of a first line that is none of this summary.
constexpr size_t kMostShown = 4096;

std::string cell(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return format_double(value);
}

std::string reason(int code) { return std::generic_category().message(code); }

// Returns the step that a line of the file is about; nothing for one that is no row.
std::optional<int64_t> step_of_line(std::string_view line) {
  if (line.starts_with(kObjectStart)) line.remove_prefix(kObjectStart.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  if (error != std::errc() || end == line.data() + line.size() || *end != ',') return std::nullopt;
  return step;
}

// The beginning of a file, of so many bytes where it has them.
std::string beginning_of(const InputFile& file, size_t bytes) {
  std::string text(static_cast<size_t>(std::min<uint64_t>(bytes, file.size())), '\0');
  file.read_at(0, text.data(), text.size());
  return text;
}

// Reads lines one by one: a summary of many steps is larger than what may be read at once.
class SummaryLines {
 public:
  SummaryLines(const InputFile& file, uint64_t begin)
      : file_(file), read_(std::min(begin, file.size())) {}

  // Returns where the next line begins.
  uint64_t at() const { return read_ - (text_.size() - used_); }

  // Returns the next line without its newline, which stays until the next call; nothing where the
  // file ends before there is one.
  std::optional<std::string_view> next() {
    size_t newline = text_.find('\n', used_);
    while (newline == std::string::npos) {
      if (read_ == file_.size()) return std::nullopt;
      text_.erase(0, std::exchange(used_, 0));
      const size_t before = text_.size();
      if (before > read_budget())
        throw over_read_budget(file_.path(), "a line of it", read_budget());
      text_.resize(before + std::min<uint64_t>(kReadAtOnce, file_.size() - read_));
      file_.read_at(read_, text_.data() + before, text_.size() - before);
      read_ += text_.size() - before;
      newline = text_.find('\n', before);
    }
    const size_t begin = std::exchange(used_, newline + 1);
    return std::string_view(text_).substr(begin, newline - begin);
  }

 private:
  const InputFile& file_;
  uint64_t read_;
  std::string text_;  // ends where the file has been read to
  size_t used_ = 0;
};

}  // namespace

void SummaryFile::require_form(const std::string& path) {
  if (!path.ends_with(".json") && !path.ends_with(".csv"))
    refuse(path, "a name that ends in .csv or .json", "'" + path + "'");
}

SummaryFile::SummaryFile(const std::string& path, std::vector<std::string> columns, int64_t start)
    : path_(path), columns_(std::move(columns)) {
  require_form(path);
  if (path.ends_with(".json")) form_ = Form::kObjects;
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw Error({.op = path_, .message = "cannot be written: " + reason(errno)});
  try {
    lock();
    end_ = kept_bytes(start);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SummaryFile::~SummaryFile() { ::close(descriptor_); }

// Each writer counts for itself where its next row goes, so two of them would write over each
// other's.
void SummaryFile::lock() const {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  // Some file systems have no locks.
  if (errno != EWOULDBLOCK) return;
  throw Error({.op = "SummaryHook",
               .argument = path_,
               .message = "another training writes it",
               .fix = "give each training a file of its own, and ranks that train together their "
                      "TrainOptions::group, of which rank 0 alone writes"});
}

std::string SummaryFile::head() const {
  if (form_ == Form::kObjects) return "[";
  CsvRow names = {"step"};
  names.insert(names.end(), columns_.begin(), columns_.end());
  return write_csv_row(names);
}

std::string SummaryFile::row(int64_t step, std::span<const double> values) const {
  if (form_ == Form::kTable) {
    CsvRow cells = {std::to_string(step)};
    for (const double value : values) cells.push_back(cell(value));
    return write_csv_row(cells);
  }
  std::string text = std::string(kObjectStart) + std::to_string(step);
  for (size_t i = 0; i < values.size(); ++i)
    text += ", " + quote_json(columns_[i]) + ": " + format_double(values[i]);
  return text + "}";
}

// A row that is cut short at the end of the file, and all behind it, does not stay.
int64_t SummaryFile::kept_bytes(int64_t start) const {
  const InputFile file(path_);
  const std::string wanted = head();
  const std::string text = beginning_of(file, std::max(wanted.size(), kMostShown));
  const std::string first_line = text.substr(0, text.find('\n'));
  if (text.empty() || (form_ == Form::kObjects && text == kNoObjects)) return 0;
  if (!text.starts_with(form_ == Form::kTable ? "step," : "[\n{\"step\": "))
    refuse(path_, "a new file, or a summary of an earlier run",
           "'" + printable(first_line, 100) + "'");
  if (start == 0) return 0;
  if (!text.starts_with(wanted)) {
    refuse(path_, "a summary with the columns " + wanted.substr(0, wanted.find('\n')),
           "'" + printable(first_line) + "'");
  }
  uint64_t end = wanted.size();
  SummaryLines lines(file, form_ == Form::kObjects ? end + 1 : end);
  while (true) {
    const uint64_t begin = lines.at();
    const std::optional<std::string_view> whole = lines.next();
    if (!whole) break;
    std::string_view line = *whole;
    if (form_ == Form::kObjects && line.ends_with(',')) line.remove_suffix(1);
    const std::optional<int64_t> step = step_of_line(line);
    if (!step || *step > start) break;
    if (form_ == Form::kObjects) {
      const Json object = parse_json(line, path_);
      for (const std::string& column : columns_)
        if (!object.contains(column))
          refuse(path_, "rows with '" + column + "'", std::string(line));
      if (object.size() != columns_.size() + 1)
        refuse(path_, "rows of " + std::to_string(columns_.size()) + " values", std::string(line));
    }
    end = begin + line.size() + (form_ == Form::kTable ? 1 : 0);
  }
  return static_cast<int64_t>(end);
}

void SummaryFile::add(int64_t step, std::span<const double> values) {
  std::string bytes = begin();
  if (form_ == Form::kObjects) bytes += empty_ ? "\n" : ",\n";
  bytes += row(step, values);
  append(std::move(bytes));
  empty_ = false;
}

void SummaryFile::finish() {
  if (!cut_) append(begin());
}

// Cuts what stands behind the rows that stay, once. Returns the head where it is to be written.
std::string SummaryFile::begin() {
  if (!cut_) {
    empty_ = end_ <= static_cast<int64_t>(head().size());
    if (const int code = end_behind_rows(); code != 0) fail(code);
    cut_ = true;
  }
  return end_ == 0 ? head() : "";
}

void SummaryFile::append(std::string bytes) {
  const auto rows = static_cast<int64_t>(bytes.size());
  if (form_ == Form::kObjects) bytes += kObjectsEnd;
  if (const int code = write(bytes); code != 0) {
    // A part of the row may be there, and nothing closes those before it any more.
    static_cast<void>(end_behind_rows());
    fail(code);
  }
  end_ += rows;
}

// Makes the file end with its rows, be there something else behind them. The end of an array is
// written before the rest goes: on a full disk there would be no room for it afterwards. Returns 0,
// or the system's reason why that failed.
int SummaryFile::end_behind_rows() {
  const std::string_view closing =
      form_ == Form::kObjects && end_ > 0 ? kObjectsEnd : std::string_view();
  if (const int code = write(closing); code != 0) return code;
  while (::ftruncate(descriptor_, end_ + static_cast<int64_t>(closing.size())) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

// Writes behind the rows. Returns 0, or the system's reason why a part of it may be missing.
int SummaryFile::write(std::string_view bytes) {
  const FileSizeSignalBlock block;
  int64_t at = end_;
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    at += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

void SummaryFile::fail(int code) const {
  throw Error({.op = path_, .message = "cannot be written: " + reason(code)});
}

void SummaryFile::refuse(const std::string& path, const std::string& expected,
                         const std::string& got) {
  throw Error({.op = "SummaryHook",
               .argument = path,
               .expected = expected,
               .got = got,
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace keel
