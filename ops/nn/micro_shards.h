// Micro-shards: a loss computed anew on each of several equal parts of its batch. Internal to
// ops/nn. Building: one thread per graph.
#ifndef KEEL_OPS_NN_MICRO_SHARDS_H
#define KEEL_OPS_NN_MICRO_SHARDS_H

#include <cstdint>

#include "keel/graph/ir/graph.h"

namespace keel {

// Returns the loss of each part: what the loss would be if the inputs under it had those rows
// alone. Inputs without a first axis are the same in all parts. That the parts divide the batch is
// checked when the step is compiled. A layer's random numbers are the same in each part.
Values losses_of_shards(Value loss, int64_t shards, CallSite site);

// Returns the sum as a balanced tree: (0 + 1) + (2 + 3).
Value tree_sum(const Values& values, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_NN_MICRO_SHARDS_H
