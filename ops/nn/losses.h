// Losses and metrics as scalars over a batch. Compositions of ops.
#ifndef KEEL_OPS_NN_LOSSES_H
#define KEEL_OPS_NN_LOSSES_H

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/ops/loss.h"

namespace keel {

// The mean of (prediction - target)^2 over all elements; floats of one dtype and one shape (no
// broadcasting, which between [n] and [n, 1] would be a mistake).
KEEL_API Value mean_squared_error(Operand prediction, Operand target, CallSite site = {});
// The mean of softmax_cross_entropy over the batch.
KEEL_API Value cross_entropy(Operand logits, Operand targets, CrossEntropyOptions options = {},
                             CallSite site = {});
// How often the largest of logits [batch, classes] is at the class id [batch]: f32 scalar in [0,
// 1]; the first of several largest counts.
KEEL_API Value accuracy(Operand logits, Operand ids, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_NN_LOSSES_H
