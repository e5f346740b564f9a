// Validation: a training that is judged now and then by a number measured on data of its own:
// which states were the best, whether it still gets anywhere, whether it is good enough. Plain
// values; the Trainer goes by them (TrainOptions::validation).
#ifndef KEEL_GRAPH_RUNTIME_VALIDATION_H
#define KEEL_GRAPH_RUNTIME_VALIDATION_H

#include <cstdint>
#include <functional>
#include <optional>

#include "keel/graph/runtime/hook.h"

namespace keel {

struct ValidationResult {
  int64_t step = 0;  // keel/step when it was measured
  double value = 0;
  bool best = false;  // so far
};

// The best so far, how many were measured since, and the last one of them all.
struct ValidationBest {
  double value = 0;
  int64_t step = 0;
  int64_t since = 0;
  std::optional<double> last{};
};

struct ValidationOptions {
  // Called between launches; the session may be used: [&] { return evaluator.means()[0]; }. A NaN
  // is never the best.
  std::function<double()> measure = {};
  // How often: after each multiple of n steps, or, for 0, at the end of each epoch; in any case
  // when the last step is done, but for a training that was asked to stop from outside, and for one
  // of several ranks that ends early, each of which may have a reason of its own.
  int64_t every_n_steps = 0;
  bool larger_is_better = true;
  // The best is one that is better than the best before by more than this, which is not negative.
  double min_gain = 0;
  // The training ends when this many in a row were no best; 0: it goes on.
  int64_t patience = 0;
  // It ends when a value is this or better.
  std::optional<double> target{};
  // fit() ends with the states and the place in the data that the best was measured with, as after
  // resuming from a file that was saved there. Takes memory for one copy of the states.
  bool keep_best = false;
  // The best before this fit, to be beaten. keep_best can keep it where fit() begins at its step,
  // and where the folder of checkpoints has its file (CheckpointOptions::keep_best). A training
  // that it has ended already, by its patience or its target, does no further step; to go on
  // from the states of the best, give it with `since` 0.
  std::optional<ValidationBest> best_before{};
  // After each; LoopControl::kStop ends the training.
  Hook<const ValidationResult&> on_result = {};
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_VALIDATION_H
