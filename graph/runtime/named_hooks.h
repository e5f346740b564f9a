// The hooks that TensorFlow 1 had, by their names, as small values: TrainOptions::hooks takes them.
//
//   trainer.fit({.steps = 1000,
//                .hooks = {keel::CheckpointSaverHook{.folder = "runs", .every_seconds = 600},
//                          keel::LoggingHook{.every_n_steps = 100}}});
//
// Each does what it says at exactly that step (keel/step) whatever the loop size is. Those that
// only read numbers (logging, step counter, NaN guard, summary) get each step's fetches of rank 0
// while the device goes on, and cut no launch. A checkpoint and a stop are between launches, so the
// Trainer ends a launch there: with a loop size of 100, a stop at step 7 is a launch of 7 steps.
// An exception of a hook ends the training after the step that runs, and fit() rethrows it.
//
// Plain values; used on the thread of fit(). What they keep while a training runs (files, times)
// begins anew with each fit().
#ifndef KEEL_GRAPH_RUNTIME_NAMED_HOOKS_H
#define KEEL_GRAPH_RUNTIME_NAMED_HOOKS_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "keel/graph/ir/value.h"

namespace keel {

// Takes a line for people; an empty one is the log at level info.
using WriteLine = std::function<void(const std::string&)>;

// Saves a checkpoint after each multiple of n steps, or after so much time, and at the end of the
// training: TrainOptions::checkpoint, which has more options, and beside which it is an error.
struct CheckpointSaverHook {
  std::string folder;
  int64_t every_n_steps = 0;
  double every_seconds = 0;
  int64_t keep = 5;  // the newest files that stay; 0: all
};

// Writes "step 100: loss 0.31, accuracy 0.9" after each multiple of n steps, or after the first
// step and then whenever so much time has passed: one of the two.
struct LoggingHook {
  Values values = {};  // fetches of rank 0; empty: all of them
  int64_t every_n_steps = 0;
  double every_seconds = 0;
  WriteLine write = {};
};

// Writes "step 200: 5321.4 steps/s", the mean since its last line, after each multiple of n steps.
struct StepCounterHook {
  int64_t every_n_steps = 100;
  WriteLine write = {};
};

// Ends the training behind this step (keel/step), if it gets there: with steps left,
// TrainReport::stopped_early is true. A training that begins behind it does no step.
struct StopAtStepHook {
  int64_t last_step = 0;
};

// Ends the training at the first step in which one of the values is NaN or infinite: with an Error
// that names value and step, or, where it does not fail, as a stop with a warning. The device may
// have done further steps by then; SinkOptions::stop_when ends a launch at the step itself.
struct NanGuardHook {
  Values values = {};  // fetches of rank 0; empty: all of them
  bool fail = true;
};

// Writes the values of each n-th step to a file that ends in .csv, a table with the column `step`
// first, or in .json, an array of objects. It is whole after each line, also where the disk is
// full. Of a file that is there the rows up to the step that the training begins behind are kept,
// and the others replaced. Of ranks that train together rank 0 alone writes it, and no two
// trainings write one: the second is refused.
struct SummaryHook {
  std::string path;
  Values values = {};  // fetches of rank 0; empty: all of them
  int64_t every_n_steps = 1;
};

using NamedHook = std::variant<CheckpointSaverHook, LoggingHook, StepCounterHook, StopAtStepHook,
                               NanGuardHook, SummaryHook>;

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_NAMED_HOOKS_H
