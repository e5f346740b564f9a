// TrainFlags: the flags and the environment of `keel train`, checked as far as is possible before
// data are read.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_TRAIN_OPTIONS_H
#define KEEL_EXAMPLES_CLI_TRAIN_TRAIN_OPTIONS_H

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/precision_flags.h"
#include "cli/base/run_flags.h"
#include "cli/model/saved_run.h"
#include "cli/model/task.h"
#include "cli/train/augmentation_flags.h"
#include "cli/train/checkpoint_flags.h"
#include "cli/train/dump_flags.h"
#include "cli/train/judging_flags.h"
#include "cli/train/profile_flags.h"
#include "cli/train/training_update.h"

namespace keel_cli {

struct TrainFlags {
  std::shared_ptr<const TaskKind> task;
  std::string data = kDigits;
  std::string label;  // of a table: the column with the classes
  std::string backend = "npu";
  std::string device = "npu";  // "npu:3", or the backend where the environment decides
  struct Config {
    std::string file;                // of --config; empty: none
    std::vector<std::string> flags;  // those that hold as it says
  } config;
  std::string optimizer = "sgd";  // or kOwnUpdate
  UpdateFlags update;
  PrecisionFlags precision;
  keel::PlacementPolicy placement = keel::PlacementPolicy::kFull;
  std::optional<keel::AccelerateTrainMode> accelerate;
  std::optional<double> target_loss;  // that the loss trigger of it is about
  std::vector<std::string> disabled_passes;
  std::string precision_mode;     // the name of the mode that this comes to on the backend
  int64_t batch = 100;            // of each rank
  std::optional<int64_t> epochs;  // exactly one of the two is set
  std::optional<int64_t> steps;
  double rate = 0;
  keel::LoopSize loop_size{100};
  std::optional<keel::LoopTuner> loop_tuner;  // instead, where the size is to be found
  bool data_sink = true;                      // else the host feeds each step
  uint64_t seed = 0;
  int threads = 1;
  keel::BatchShare share;    // this rank among those that train together
  int64_t micro_shards = 1;  // of the rows of all ranks
  std::string metrics;       // empty: not written
  std::string summary;
  std::string save;
  CheckpointFlags checkpoint;
  std::optional<SavedRun> resume;  // what the training goes on from
  std::string init;                // file whose weights it begins with; empty: initial values
  JudgingFlags judging;
  AugmentationFlags augmentation;
  bool allow_non_finite = false;  // save over finite states, resume from others
  keel::NumericsMode check_numerics = keel::NumericsMode::kOff;
  keel::DumpOptions dump;
  bool cache = true;  // whether a small training set is kept on the device
  bool quiet = false;
  std::string preset;                // of the NPU; empty: KEEL_NPU_PRESET, else ascend910b1
  std::optional<int64_t> block_dim;  // most blocks of a launch on the NPU
  ProfileFlags profile;

  // Says whether the training graph's own update is what trains it.
  bool own_update() const { return optimizer == kOwnUpdate; }
  // Items of a step, on all ranks together.
  int64_t global_batch() const { return keel::checked_mul(batch, share.count, "--batch"); }
  // Whoever writes files and tells of the training.
  bool is_first_rank() const { return share.index == 0; }
  // Says whether anything that could be resumed is written.
  bool saves() const {
    return !save.empty() || !judging.save_best.empty() || !checkpoint.folder.empty();
  }
};

// Returns the options that the flags ask of the NPU; null: none.
std::shared_ptr<const keel::DeviceOptions> device_options(const TrainFlags& flags);
// Throws where --accelerate-train-mode is about a loss that neither a flag nor the environment
// says. Not part of read_train_flags: a configuration may leave it to the environment of the
// training.
void require_target_loss(const TrainFlags& flags);
// Returns what a saved file keeps of --accelerate-train-mode and of --disable-pass.
std::map<std::string, std::string> saved_acceleration(const TrainFlags& flags);
std::map<std::string, std::string> saved_passes(const TrainFlags& flags);
// Says where the compiler passes that are off are others than those of the training that is
// resumed; empty: they are the same, or nothing is resumed.
std::string other_passes(const TrainFlags& flags);
void declare_train_flags(CommandLine& line);
// `group`: the ranks that train together, this one among them.
TrainFlags read_train_flags(const CommandLine& line, keel::Group& group);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_TRAIN_OPTIONS_H
