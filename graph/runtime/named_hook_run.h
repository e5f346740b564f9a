// with_named_hooks: turns the named hooks of one Trainer::fit() into the options that they stand
// for. Used on the thread of fit(). Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_NAMED_HOOK_RUN_H
#define KEEL_GRAPH_RUNTIME_NAMED_HOOK_RUN_H

#include <cstdint>
#include <functional>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/graph/runtime/trainer.h"

namespace keel {

// Returns the options with their hooks as the mechanisms below them: on_step, last_step and
// checkpoint. `metrics`: the fetches of rank 0, in their order; `start`: the step that the fit
// begins behind. Opens the files of summaries, of a group's ranks on rank 0 alone. `ends`: gets
// what is to be called behind a fit that went through. Throws Error (kInvalidArgument) for a hook
// that is wrong, for a value that is not fetched, and for two that save checkpoints; and Error for
// a file that cannot be opened, or that another training writes.
TrainOptions with_named_hooks(TrainOptions options, const Values& metrics, int64_t start,
                              std::vector<std::function<void()>>& ends, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_NAMED_HOOK_RUN_H
