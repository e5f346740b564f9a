#include "keel/graph/runtime/train_options_check.h"

namespace keel {
namespace {

void require_at_least(int64_t value, int64_t least, const char* argument, CallSite site) {
  if (value < least)
    complain_of_fit(argument, "at least " + std::to_string(least), std::to_string(value), site);
}

// A loop size and a tuner, or two sizes, would leave one of them without effect.
void check_loop_size(const TrainOptions& options, LoopSize in_force, CallSite site) {
  try {
    if (options.loop_size) in_force.set(*options.loop_size, kLoopSizeOption);
    if (options.loop_tuner) in_force.require_tunable(kLoopTunerOption);
  } catch (const Error& error) {
    throw error.with_site(site);
  }
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

void check_train_options(const TrainOptions& options, const LoopSize& loop_size, CallSite site) {
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
  check_loop_size(options, loop_size, site);
}

}  // namespace keel
