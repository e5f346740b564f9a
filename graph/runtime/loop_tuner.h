// LoopTuner: finds the loop size while the training runs, from what the launches took. Any size
// gives the same results, so nothing is wasted by trying several. A plain value that a Trainer uses
// between launches; one thread.
#ifndef KEEL_GRAPH_RUNTIME_LOOP_TUNER_H
#define KEEL_GRAPH_RUNTIME_LOOP_TUNER_H

#include <cstdint>
#include <optional>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"

namespace keel {

class KEEL_API LoopTuner {
 public:
  // Returns the smallest size whose steps take at most 2 % longer than those of the best one tried.
  // Sizes go up from 1 until they no longer help.
  static LoopTuner plateau();
  // Launches of about this wall time, following the steps as they get slower or faster. Throws
  // Error unless it is finite and > 0.
  static LoopTuner time_target(double seconds, CallSite site = CallSite::here());

  // Steps of the next launch.
  int64_t next() const;
  // Records what a launch took. Shorter ones than next() asked for are no measure of a size that is
  // tried; where there are only such, the sizes that fit decide.
  void record(int64_t steps, int64_t wall_ns);
  // Returns the size that was found; nothing yet while sizes are still tried.
  std::optional<int64_t> chosen() const noexcept { return chosen_; }

  // A size may be so far from the best.
  static constexpr double kTolerance = 0.02;

 private:
  struct Trial {
    int64_t size = 1;
    std::vector<double> step_ns;  // one value for each launch
    int64_t wall_ns = 0;
    int cut_short = 0;  // launches one after the other
  };
  LoopTuner() = default;
  void choose();
  void record_trial(int64_t steps, int64_t wall_ns);
  void record_time(int64_t steps, int64_t wall_ns);

  double target_ns_ = 0;  // 0: look for the plateau
  std::vector<Trial> trials_;
  int64_t time_size_ = 1;
  bool warm_ = false;
  std::optional<int64_t> chosen_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_LOOP_TUNER_H
