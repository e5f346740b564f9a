// Which hooks of a fit's options are due behind a step, and where a launch has to end for the next.
// Pure functions; any thread. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_DUE_HOOKS_H
#define KEEL_GRAPH_RUNTIME_DUE_HOOKS_H

#include <cstdint>

#include "keel/graph/runtime/trainer.h"

namespace keel {

// Returns the step at which the next launch has to end at the latest.
int64_t next_stop(const TrainOptions& options, int64_t step, int64_t target);

bool is_due(const EveryNSteps& every, int64_t step);
bool is_epoch_end_due(const TrainOptions& options, int64_t step);
// Says whether any of them is due.
bool has_hooks_at(const TrainOptions& options, int64_t step);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_DUE_HOOKS_H
