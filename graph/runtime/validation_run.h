// ValidationRun: the validation of one Trainer::fit(): when to measure, which measurement is the
// best, when to stop; with keep_best it holds the states of the best. Owned by that fit, on the
// session's thread. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_VALIDATION_RUN_H
#define KEEL_GRAPH_RUNTIME_VALIDATION_RUN_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "keel/graph/runtime/checkpoint.h"
#include "keel/graph/runtime/trainer.h"

namespace keel {

class ValidationRun {
 public:
  // No options: it never measures. `place`: says where the training stands, between launches.
  // Throws Error (kInvalidArgument) for wrong options.
  ValidationRun(const std::optional<ValidationOptions>& options, int64_t steps_per_epoch,
                std::function<TrainingPlace()> place, CallSite site);

  // Puts the best before into the report, and whether it has ended the training; keeps the states
  // as they are before the first step where it was measured with them, or else those of
  // `best_file`, a checkpoint of that step; empty: there is none. `group`: the ranks that train
  // together, of which rank 0 reads the file for all; null: this one trains alone.
  void begin(SessionState& session, const std::string& best_file, Group* group,
             TrainReport& report);
  // The first step behind `step` after which it is due; `target` where there is none before.
  int64_t next(int64_t step, int64_t target) const;
  bool due(int64_t step, int64_t target) const;
  // Returns whether it measures, and has not yet done so behind this step.
  bool has_not_measured(int64_t step) const { return options_ != nullptr && measured_at_ != step; }
  // Measures; what came of it goes to the report. Whether the training ends.
  bool measure(SessionState& session, TrainReport& report);
  // Does the same behind the last step of a training that something else has ended.
  void measure_last(SessionState& session, TrainReport& report);
  // Writes the states of the best where those of the session are later ones; the place that belongs
  // to them.
  std::optional<TrainingPlace> restore_best(SessionState& session);

 private:
  bool better(double value) const;
  bool reaches_target(double value) const;
  bool out_of_patience() const { return options_->patience > 0 && since_ >= options_->patience; }
  ValidationResult judge(SessionState& session, TrainReport& report);
  void keep(SessionState& session);

  const ValidationOptions* options_ = nullptr;
  int64_t period_ = 0;
  std::optional<ValidationBest> best_;
  int64_t since_ = 0;  // measurements behind the best, or all where none was one
  std::optional<int64_t> measured_at_;
  StateValues states_;   // of the best, where they are kept
  TrainingPlace place_;  // likewise
  std::function<TrainingPlace()> current_place_;
  CallSite site_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_VALIDATION_RUN_H
