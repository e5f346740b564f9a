// Losses of each element or row, unreduced, beside softmax_cross_entropy (ops/loss.h): what
// ops/nn/losses.h takes the mean of. Compositions of ops; floats of one dtype and one shape (no
// broadcasting, which between [n] and [n, 1] would be a mistake). Gradients flow to both operands
// where both are floats.
//
// Errors and printed graphs name `site`, or where that is not given the line that made the first
// operand.
#ifndef KEEL_OPS_COMPOSED_LOSSES_H
#define KEEL_OPS_COMPOSED_LOSSES_H

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2), of d = prediction - target; delta is
// positive. For each element. Source: Huber, "Robust Estimation of a Location Parameter" (1964).
KEEL_API Value huber(Operand prediction, Operand target, double delta = 1, CallSite site = {});

// -target * log(sigmoid(logits)) - (1 - target) * log(1 - sigmoid(logits)), for each element: of
// finite logits of any size neither infinite nor 0 before its time. Targets lie in [0, 1].
KEEL_API Value sigmoid_cross_entropy(Operand logits, Operand targets, CallSite site = {});

// max(0, 1 - label * score), for each element; labels are -1 and 1 as floats.
KEEL_API Value hinge(Operand scores, Operand labels, CallSite site = {});

// -log_probabilities[row, id of the row]: [batch, classes] and [batch] class ids of any integer
// dtype to [batch]. A class id out of range is an error at run time that names it.
KEEL_API Value negative_log_likelihood(Operand log_probabilities, Operand ids, CallSite site = {});

// sum(target * (log(target) - log_probabilities)) along the last axis: how many nats the code for
// the second distribution costs more than that for the first. A class of target 0 counts nothing.
KEEL_API Value kl_divergence(Operand log_probabilities, Operand targets, CallSite site = {});

// `got`, which must have the shape of `expected`: dimensions that are unknown now are checked once
// they are known. A number may stand for any shape. Throws Error for other shapes.
Operand same_shape(const char* op, const Operand& expected, const char* argument,
                   const Operand& got, CallSite site);
// The same, of the dtype of `expected`, too, which has to be a float.
Operand same_floats(const char* op, const char* of, const Operand& expected, const char* argument,
                    const Operand& got, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_LOSSES_H
