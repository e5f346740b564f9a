// Micro-shards: a loss of one of several equal parts of its batch, for sum_of_parts. Internal to
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

// Returns the loss of the first part: what the loss would be if the inputs under it had its rows
// alone. Inputs without a first axis are the same in all parts. That the others have the same rows,
// and that the parts divide them, is checked when the step is compiled. Throws Error where the loss
// is built for a number of rows that an input says.
LossOfPart loss_of_part(Value loss, int64_t parts, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_NN_MICRO_SHARDS_H
