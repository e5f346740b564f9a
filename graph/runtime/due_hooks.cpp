#include "keel/graph/runtime/due_hooks.h"

#include <algorithm>

#include "keel/graph/runtime/next_multiple.h"

namespace keel {

int64_t next_stop(const TrainOptions& options, int64_t step, int64_t target) {
  int64_t stop = target;
  if (options.on_epoch_end || options.epochs)
    stop = std::min(stop, next_multiple(step, options.steps_per_epoch));
  for (const EveryNSteps& every : options.every_n_steps)
    stop = std::min(stop, next_multiple(step, every.n));
  return stop;
}

bool is_due(const EveryNSteps& every, int64_t step) { return step % every.n == 0; }

bool is_epoch_end_due(const TrainOptions& options, int64_t step) {
  return options.on_epoch_end && step % options.steps_per_epoch == 0;
}

bool has_hooks_at(const TrainOptions& options, int64_t step) {
  return is_epoch_end_due(options, step) ||
         std::any_of(options.every_n_steps.begin(), options.every_n_steps.end(),
                     [step](const EveryNSteps& every) { return is_due(every, step); });
}

}  // namespace keel
