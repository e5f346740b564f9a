#include "cli/train/progress.h"

#include <cstdlib>
#include <fcntl.h>
#include <iostream>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include <fmt/core.h>
#include <keel/core/base/printable.h>

namespace keel_cli {
namespace {

constexpr auto kTerminalPeriod = std::chrono::milliseconds(200);
constexpr auto kPlainPeriod = std::chrono::seconds(3);

}  // namespace

Progress::Progress(int64_t total_steps, int64_t batch, std::string items, bool quiet, int64_t done,
                   std::function<std::string()> note)
    : total_(total_steps),
      batch_(batch),
      items_(std::move(items)),
      quiet_(quiet),
      before_(done),
      note_(std::move(note)),
      terminal_(isatty(STDOUT_FILENO) == 1),
      color_(terminal_ && std::getenv("NO_COLOR") == nullptr) {
  next_ = start_ + (terminal_ ? Clock::duration(kTerminalPeriod) : Clock::duration(kPlainPeriod));
}

void Progress::step(int64_t done, double loss, const StepScale* scale) {
  if (quiet_) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + (terminal_ ? Clock::duration(kTerminalPeriod) : Clock::duration(kPlainPeriod));
  print(done, loss, scale, std::chrono::duration<double>(now - start_).count());
}

void Progress::print(int64_t done, double loss, const StepScale* scale, double seconds) {
  const double rate = static_cast<double>(done - before_) / seconds;
  const double left = static_cast<double>(total_ - done) / rate;
  std::string scaling;
  if (scale != nullptr)
    scaling = fmt::format("scale {:g}, {} skipped  ", scale->scale, scale->skipped_steps);
  std::string text =
      fmt::format("step {}/{}  loss {:.4f}  {}{:.0f} {}/s  {:.0f} s left", done, total_, loss,
                  scaling, rate * static_cast<double>(batch_), items_, left);
  if (const std::string note = note_ ? note_() : ""; !note.empty()) text += "  " + note;
  if (!terminal_) {
    std::cout << text << "\n";
  } else {
    clear();
    std::cout << (color_ ? "\033[36m" + text + "\033[0m" : text);
    shown_ = true;
  }
  flush();
}

void Progress::flush() {
  if (std::cout.flush() || reader_gone_) return;
  pollfd out{STDOUT_FILENO, 0, 0};
  reader_gone_ = poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
  if (!reader_gone_) return;  // a full disk, say: an error when the command ends
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  dup2(nowhere, STDOUT_FILENO);
  close(nowhere);
  std::cout.clear();
}

void Progress::clear() {
  if (shown_) std::cout << "\r\033[K";
  shown_ = false;
}

void Progress::line(const std::string& text) { lines(keel::printable(text)); }

void Progress::lines(const std::string& text) {
  if (quiet_) return;
  clear();
  std::cout << text << "\n";
  flush();
}

}  // namespace keel_cli
