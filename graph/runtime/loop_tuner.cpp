#include "keel/graph/runtime/loop_tuner.h"

#include <algorithm>
#include <cmath>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"

namespace keel {
namespace {

// A size is tried for so many launches and so long: enough that one disturbed launch does not
// decide.
constexpr size_t kLaunches = 7;
constexpr int64_t kTrialNs = 4'000'000;
constexpr int64_t kLargestTrial = 1000;
constexpr int kMostCutShort = 3;
constexpr int64_t kLargestSize = 1'000'000;

// 1, 2, 5, 10, 20, 50 ...
int64_t size_after(int64_t size) {
  int64_t decade = 1;
  while (decade * 10 <= size) decade *= 10;
  if (size < 2 * decade) return 2 * decade;
  return size < 5 * decade ? 5 * decade : 10 * decade;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

LoopTuner LoopTuner::plateau() {
  LoopTuner tuner;
  tuner.trials_.push_back({});
  return tuner;
}

LoopTuner LoopTuner::time_target(double seconds, CallSite site) {
  if (!(std::isfinite(seconds) && seconds > 0)) {
    throw Error({.op = "LoopTuner",
                 .argument = "seconds",
                 .expected = "a finite number > 0, the wall time of a launch",
                 .got = printable(seconds),
                 .site = site,
                 .kind = ErrorKind::kInvalidArgument});
  }
  LoopTuner tuner;
  tuner.target_ns_ = seconds * 1e9;
  return tuner;
}

int64_t LoopTuner::next() const {
  if (target_ns_ > 0) return time_size_;
  return chosen_ ? *chosen_ : trials_.back().size;
}

void LoopTuner::record(int64_t steps, int64_t wall_ns) {
  if (steps <= 0) return;
  if (!warm_) {  // the first launch pays for cold caches and sleeping threads
    warm_ = true;
    return;
  }
  if (target_ns_ > 0)
    record_time(steps, wall_ns);
  else if (!chosen_)
    record_trial(steps, wall_ns);
}

void LoopTuner::record_trial(int64_t steps, int64_t wall_ns) {
  Trial& trial = trials_.back();
  if (steps < trial.size) {
    if (++trial.cut_short < kMostCutShort || trials_.size() < 2) return;
    trials_.pop_back();
    return choose();
  }
  trial.cut_short = 0;
  trial.step_ns.push_back(static_cast<double>(wall_ns) / static_cast<double>(steps));
  trial.wall_ns += wall_ns;
  if (trial.step_ns.size() < kLaunches || trial.wall_ns < kTrialNs) return;

  // Two sizes in a row without gain: the plateau.
  const size_t tried = trials_.size();
  const auto took = [&](size_t back) { return median(trials_[tried - back].step_ns); };
  const bool flat =
      tried >= 3 && took(1) > took(3) * (1 - kTolerance) && took(2) > took(3) * (1 - kTolerance);
  if (flat || trial.size >= kLargestTrial)
    choose();
  else
    trials_.push_back({.size = size_after(trial.size)});
}

void LoopTuner::choose() {
  std::vector<double> took;
  for (const Trial& trial : trials_) took.push_back(median(trial.step_ns));
  const double best = *std::min_element(took.begin(), took.end());
  const auto first = std::find_if(took.begin(), took.end(),
                                  [&](double t) { return t <= best * (1 + kTolerance); });
  chosen_ = trials_[static_cast<size_t>(first - took.begin())].size;
}

void LoopTuner::record_time(int64_t steps, int64_t wall_ns) {
  const double step_ns = std::max(1.0, static_cast<double>(wall_ns) / static_cast<double>(steps));
  const double wanted = std::clamp(target_ns_ / step_ns, 1.0, static_cast<double>(kLargestSize));
  const bool tenfold = wanted > 10.0 * static_cast<double>(time_size_);
  // A short launch says little about a long one: not more than tenfold at a time.
  time_size_ = tenfold ? time_size_ * 10 : std::llround(wanted);
  if (!tenfold) chosen_ = time_size_;
}

}  // namespace keel
