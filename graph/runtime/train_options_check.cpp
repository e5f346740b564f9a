#include "keel/graph/runtime/train_options_check.h"

#include <limits>

#include "keel/core/group/group.h"

namespace keel {
namespace {

void require_at_least(int64_t value, int64_t least, const char* argument, CallSite site) {
  if (value < least)
    complain_of_fit(argument, "at least " + std::to_string(least), std::to_string(value), site);
}

// A loop size and a tuner, or two sizes, would leave one of them without effect. Asking for the
// size in force is what refuses a wrong environment variable.
void check_loop_size(const TrainOptions& options, LoopSize in_force, CallSite site) {
  try {
    if (options.loop_size) in_force.set(*options.loop_size, kLoopSizeOption);
    if (options.loop_tuner) in_force.require_tunable(kLoopTunerOption);
    static_cast<void>(in_force.value());
  } catch (const Error& error) {
    throw error.with_site(site);
  }
}

// Steps are counted from the beginning of the training, in 64 bits.
void check_length(const TrainOptions& options, int64_t done, CallSite site) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto require_at_most = [&](int64_t value, int64_t most, const char* argument) {
    if (value > most)
      complain_of_fit(argument, "at most " + std::to_string(most), std::to_string(value), site);
  };
  if (options.steps) require_at_most(*options.steps, kMost - done, "steps");
  if (options.epochs) require_at_most(*options.epochs, kMost / options.steps_per_epoch, "epochs");
}

void check_agreement(const TrainOptions& options, bool has_agreement, CallSite site) {
  if (!has_agreement && options.group != nullptr && options.group->size() > 1)
    complain_of_fit("group", "a step with an agreement of the group (SinkOptions::agreement)",
                    "one without", site);
  if (has_agreement && options.check_numerics != NumericsMode::kOff)
    complain_of_fit("check_numerics", "off in a training with an agreement", "on", site);
}

}  // namespace

void complain_of_fit(const std::string& argument, const std::string& expected,
                     const std::string& got, CallSite site) {
  throw Error({.op = "fit",
               .argument = argument,
               .expected = expected,
               .got = got,
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

void check_train_options(const TrainOptions& options, const TrainingNow& now, CallSite site) {
  if (options.steps.has_value() == options.epochs.has_value()) {
    complain_of_fit("steps, epochs", "one of the two", options.steps ? "both" : "neither", site);
  }
  if (options.steps) require_at_least(*options.steps, 0, "steps", site);
  if (options.epochs) require_at_least(*options.epochs, 0, "epochs", site);
  const bool epochs_matter = options.epochs || options.on_epoch_end;
  require_at_least(options.steps_per_epoch, epochs_matter ? 1 : 0, "steps_per_epoch", site);
  for (const EveryNSteps& every : options.every_n_steps)
    require_at_least(every.n, 1, "every_n_steps", site);
  if (options.last_step) require_at_least(*options.last_step, 0, "last_step", site);
  check_length(options, now.step, site);
  check_agreement(options, now.has_agreement, site);
  check_loop_size(options, now.loop_size, site);
}

}  // namespace keel
