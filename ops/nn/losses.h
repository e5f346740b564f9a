// Losses and metrics as scalars over a batch: means of what ops/loss.h and ops/composed/losses.h
// give for each element or row, where another reduction can be taken instead. Compositions of ops.
#ifndef KEEL_OPS_NN_LOSSES_H
#define KEEL_OPS_NN_LOSSES_H

#include <cstdint>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/ops/composed/losses.h"
#include "keel/ops/loss.h"

namespace keel {

// Returns the mean of (prediction - target)^2 over all elements; floats of one dtype and one shape
// (no broadcasting, which between [n] and [n, 1] would be a mistake).
KEEL_API Value mean_squared_error(Operand prediction, Operand target, CallSite site = {});
// Returns the mean of softmax_cross_entropy over the batch, and over all axes of logits [...,
// classes] between it and the classes, as the time of a sequence: ids have the shape [...], weights
// that of the logits. Either the classes or all sizes before them are known then.
KEEL_API Value cross_entropy(Operand logits, Operand targets, CrossEntropyOptions options = {},
                             CallSite site = {});
// Returns the mean of |prediction - target| over all elements, likewise; its gradient is 0 where
// they are equal.
KEEL_API Value mean_absolute_error(Operand prediction, Operand target, CallSite site = {});
// Returns the means of huber, sigmoid_cross_entropy and hinge over all elements.
KEEL_API Value huber_loss(Operand prediction, Operand target, double delta = 1, CallSite site = {});
KEEL_API Value binary_cross_entropy(Operand logits, Operand targets, CallSite site = {});
KEEL_API Value hinge_loss(Operand scores, Operand labels, CallSite site = {});
// Returns the means of negative_log_likelihood over the batch, and of kl_divergence over all rows.
KEEL_API Value nll_loss(Operand log_probabilities, Operand ids, CallSite site = {});
KEEL_API Value kl_divergence_loss(Operand log_probabilities, Operand targets, CallSite site = {});
// Returns how often the largest of logits [batch, classes] is at the class id [batch]: f32 scalar
// in [0, 1]. The first of several largest counts, and a row that holds NaN is wrong for every id.
KEEL_API Value accuracy(Operand logits, Operand ids, CallSite site = {});
// Returns for each row whether its class id is among those of the k largest logits, 1 or 0 as f32
// [batch], and how often it is; the first of several that are equal count, as in top_k, and a row
// that holds NaN is wrong. k is at least 1 and at most the number of classes.
KEEL_API Value top_k_hits(Operand logits, Operand ids, int64_t k, CallSite site = {});
KEEL_API Value top_k_accuracy(Operand logits, Operand ids, int64_t k, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_NN_LOSSES_H
