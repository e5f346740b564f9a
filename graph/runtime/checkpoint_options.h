// Checkpoints of a training that goes on: how often all of it is written to a folder, which files
// stay there, and what an error of writing means. Plain values; the Trainer goes by them
// (TrainOptions::checkpoint).
#ifndef KEEL_GRAPH_RUNTIME_CHECKPOINT_OPTIONS_H
#define KEEL_GRAPH_RUNTIME_CHECKPOINT_OPTIONS_H

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "keel/core/base/error.h"

namespace keel {

// Says what becomes of a training whose checkpoint cannot be written. The states and the older
// files are as they were in any case. kStop: fit() ends behind the step that runs and throws the
// Error.
enum class OnSaveError : uint8_t { kContinue, kStop };

// A checkpoint is a file as Trainer::save writes it, FOLDER/step-0000001200.safetensors. The
// training waits while the states are copied; a thread of its own checks and writes the copy, of
// which there is one at a time. One that falls due while the one before is still being written is
// put off to the end of a later launch, unless `waits_for_writer`; those of the best states and of
// the end wait.
//
// fit() writes one at its end, too, however it ends, but not behind the step of the last one. Older
// files are removed only when the new one is whole, and on the disk.
struct CheckpointOptions {
  // It is made where it is missing. A folder with checkpoints is refused unless the training was
  // resumed from one of them; then those of later steps go before the first is written. While
  // fit() runs no other training can write to it.
  std::string folder;
  // After each multiple of n steps, or after as much time since the last one, launches being cut
  // short for it (with an agreement: at the end of the launch that runs); 0: not for that.
  int64_t every_n_steps = 0;
  double every_seconds = 0;
  int64_t keep = 3;  // the newest files that stay; 0: all
  // Each best of the validation is written at once, and the file of the last one stays beside the
  // newest. Where ValidationOptions::keep_best goes on with a best of an earlier step, its states
  // are read from here.
  bool keep_best = false;
  bool waits_for_writer = false;
  // States that hold NaN or an infinity are no checkpoint but an error of saving, so that they
  // replace none of finite states.
  bool allow_non_finite = false;
  OnSaveError on_error = OnSaveError::kContinue;

  // More metadata; called between launches: {"run", the run's configuration as JSON}.
  std::function<std::map<std::string, std::string>()> metadata = {};
  // Called by the writing thread before the file of a step is written: whatever must be on the disk
  // when it is. What it throws is an error of saving.
  std::function<void(int64_t step)> before_write = {};
  // Is told of each error where the training goes on; between launches. Without it the log warns.
  std::function<void(const Error&)> on_failure = {};
};

// Tells what became of the checkpoints of one fit.
struct CheckpointReport {
  int64_t saved = 0;
  int64_t failed = 0;
  std::string last_file{};  // the newest that was written; empty: none
  std::optional<int64_t> last_step{};
  std::string best_file{};  // of the best, where that is kept; it may be of a fit before
  double copy_seconds = 0;  // the training waited for these: for copies
  double wait_seconds = 0;  // and for the writing of the one before, or the last
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_CHECKPOINT_OPTIONS_H
