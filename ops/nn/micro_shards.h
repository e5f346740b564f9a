// Micro-shards: a loss that stands for that of each of several equal parts of its batch, for
// sum_of_parts. Internal to
// ops/nn. Building: one thread per graph.
#ifndef KEEL_OPS_NN_MICRO_SHARDS_H
#define KEEL_OPS_NN_MICRO_SHARDS_H

#include <cstdint>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/ops/sum_of_parts.h"

namespace keel {

struct LossOfPart {
  Value loss;
  std::vector<BatchPart> batch;  // the inputs under it that have a first axis
};

// Returns a loss that stands for that of each part: what the loss would be if the inputs under it
// had as many rows as a part has. Which rows it has is not said, so it is of no use alone. Inputs
// without a first axis are the same in all parts. That the others have the same rows, and that the
// parts divide them, is checked when the step is compiled, where nothing that is computed from them
// refuses their number before. Throws Error where the parts do not divide a number of rows that an
// input says, or the loss is built for it.
LossOfPart loss_of_part(Value loss, int64_t parts, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_NN_MICRO_SHARDS_H
