// layer_norm and rms_norm: the rows of a value, which lie along its last axis, brought to a common
// size. Floats only; 16-bit ones are computed in f32 and rounded once. Sources: Ba, Kiros and
// Hinton, "Layer Normalization" (2016); Zhang and Sennrich, "Root Mean Square Layer Normalization"
// (2019).
//
// Each function adds one node to the graph of the call (graph/ir/emit.h). Errors and printed graphs
// name `site`, or where that is not given the line that made the first operand. What normalises
// along other axes is in batch_norm.h and composed/channel_norm.h.
#ifndef KEEL_OPS_NORMALIZATION_H
#define KEEL_OPS_NORMALIZATION_H

#include <cstdint>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct NormOptions {
  double epsilon = 1e-5;  // added to the mean square before its root is taken; finite, not negative
  static void fields(auto&& visit) { visit("epsilon", &NormOptions::epsilon); }
};

// (x - mean(x)) / sqrt(var(x) + epsilon) along the last axis; then times `scale` and plus `offset`,
// both of shape [features] and x's dtype. The variance is that of a population, computed in two
// passes.
KEEL_API Value layer_norm(Operand x, NormOptions options = {}, CallSite site = {});
KEEL_API Value layer_norm(Operand x, Operand scale, Operand offset, NormOptions options = {},
                          CallSite site = {});

// x / sqrt(mean(x^2) + epsilon) along the last axis; then times `scale`, of shape [features].
KEEL_API Value rms_norm(Operand x, NormOptions options = {}, CallSite site = {});
KEEL_API Value rms_norm(Operand x, Operand scale, NormOptions options = {}, CallSite site = {});

// All norms are made of these: x less its mean along `axes`, which keep their place with size 1,
// and 1 / sqrt(variance + epsilon). x is of f32 or f64.
struct Centred {
  Value mean;       // of x
  Value distances;  // x - mean
  Value variance;
  Value inverse;  // 1 / sqrt(variance + epsilon)
};
Centred centred(Value x, const std::vector<int64_t>& axes, double epsilon, CallSite site);

// x in the dtype that norms are computed in: f64 as it is, all others f32.
Value widened_for_norm(Value x, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_NORMALIZATION_H
