// Progress: tells a person how the training goes: a line that renews itself on a terminal, else a
// plain line every few seconds. Used by the training thread.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_PROGRESS_H
#define KEEL_EXAMPLES_CLI_TRAIN_PROGRESS_H

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "cli/train/loss_scale_flag.h"

namespace keel_cli {

class Progress {
 public:
  // `items`: what a batch is of, "images". `quiet` prints nothing at all. `done`: steps that were
  // done before. `note`: what else a line tells, asked when it is printed.
  Progress(int64_t total_steps, int64_t batch, std::string items, bool quiet, int64_t done = 0,
           std::function<std::string()> note = nullptr);

  // After each step; prints when it is time to.
  // `scale`: null where the loss is not scaled.
  void step(int64_t done, double loss, const StepScale* scale);
  // A line of its own, above the one that renews itself. Control characters in it are escaped.
  void line(const std::string& text);
  // Several lines, printed as they are.
  void lines(const std::string& text);
  // Says whether the reader of standard output went away (`| head -1`). What is printed after that
  // is thrown away.
  bool reader_gone() const noexcept { return reader_gone_; }

 private:
  using Clock = std::chrono::steady_clock;
  void print(int64_t done, double loss, const StepScale* scale, double seconds);
  void clear();
  void flush();

  int64_t total_;
  int64_t batch_;
  std::string items_;
  bool quiet_;
  int64_t before_;
  std::function<std::string()> note_;
  bool terminal_;
  bool color_;
  bool shown_ = false;
  bool reader_gone_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_PROGRESS_H
