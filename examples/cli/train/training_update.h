// How `keel train` makes an update of a loss: optimizer, schedule, micro-batches, clipping and
// averaged weights, by flags that a saved file decides where it is resumed.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_TRAINING_UPDATE_H
#define KEEL_EXAMPLES_CLI_TRAIN_TRAINING_UPDATE_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <keel/keel.h>
#include <keel/ops/nn/data_parallel.h>

#include "cli/base/command_line.h"
#include "cli/model/saved_run.h"
#include "cli/train/loss_scale_flag.h"

namespace keel_cli {

const std::vector<std::string>& optimizer_names();
// Stands for the update that a training graph brings, where files and summaries name the optimizer.
inline constexpr const char* kOwnUpdate = "own";
// The learning rate that an optimizer mostly does well with; the two rates are the model's.
double usual_rate(const std::string& optimizer, double sgd_rate, double adam_rate);

keel::Optimizer make_optimizer(const std::string& name, const keel::Schedule& rate);

struct UpdateFlags {
  std::string schedule = "constant";
  std::optional<int64_t> warmup = 0;  // steps; nothing: a tenth of the schedule's
  int64_t schedule_steps = 0;         // 0: those of the training
  int64_t accumulate = 1;             // micro-batches an update
  std::optional<double> clip_norm, clip_value, average;
  std::string loss_scale = kNoLossScale;  // see parse_loss_scale
  bool fail_on_nan = false;
  std::string freeze;  // a shell pattern of states that are not trained; empty: none
};

void declare_update_flags(CommandLine& line);
// Throws one keel::Error naming all flags that shape an update of ours, where the model trains by
// its own. `fix` says what else there is to do than to drop them.
void require_no_update_flags(const CommandLine& line, const std::string& model,
                             const std::string& fix);
// Holds for a training that says nothing of it and goes on from no file.
struct UsualUpdate {
  std::string loss_scale = kNoLossScale;
  std::string schedule = "constant";  // another one warms up, too
};
// Throws keel::Error for flags that contradict one another or `resume`.
UpdateFlags read_update_flags(const CommandLine& line, const std::optional<SavedRun>& resume,
                              const UsualUpdate& usual);
// Returns over how many steps of a training of `steps` the schedule goes; nothing for one that goes
// on as long as the training does.
std::optional<int64_t> schedule_steps_of(const UpdateFlags& flags, int64_t steps);
// Returns of how many updates that schedule is; the rate of those behind them is that of its end.
std::optional<int64_t> schedule_updates_of(const UpdateFlags& flags, int64_t steps);
// Returns in how many steps of such a training the rate first rises.
int64_t warmup_of(const UpdateFlags& flags, int64_t steps);
// Returns what the file of a training of that many steps keeps of the flags, for read_update_flags;
// nothing of those that were not given.
std::map<std::string, std::string> saved_form(const UpdateFlags& flags, int64_t steps);

struct TrainingLength {
  int64_t steps = 0;
  int64_t steps_per_epoch = 0;
};

struct TrainingUpdate {
  keel::Update update;
  keel::Value loss;      // of the step, on all ranks
  keel::Values scaling;  // where the loss is scaled: the scale, and 1 in a step that is skipped
  // For --fail-on-nan: says that loss or gradients are not finite, so that the step changes
  // nothing.
  keel::Value stop_when = {};
};

// Says what trains a model that brings an update: that one, or an optimizer in its place.
std::string describe_update(const std::string& optimizer, const keel::Update& own);
// The update that a training graph brings, with those that are attached to its loss. Of the flags
// only fail_on_nan shapes it: then the loss and the next values of its states are watched.
TrainingUpdate guard_own_update(keel::Update update, keel::Value loss, const UpdateFlags& flags);

// The update of every state under the loss, of all `ranks` together. Throws keel::Error for a
// schedule that does not fit into the steps, and for more micro-batches an update than steps.
TrainingUpdate make_update(keel::Value loss, const keel::DataParallel& ranks,
                           const std::string& optimizer, double rate, const UpdateFlags& flags,
                           const TrainingLength& length);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_TRAINING_UPDATE_H
