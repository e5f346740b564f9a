// batch_norm: normalisation of each channel over a batch, for training. An op of its own, for its
// gradient takes two sums over the batch where that of its parts takes more. Floats only; 16-bit
// ones are computed in f32 and rounded once. What normalises otherwise is in normalization.h and
// composed/channel_norm.h. Source: Ioffe and Szegedy, "Batch Normalization" (2015).
#ifndef KEEL_OPS_BATCH_NORM_H
#define KEEL_OPS_BATCH_NORM_H

#include <cstdint>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct ChannelNormOptions {
  double epsilon = 1e-5;  // added to the variance; finite, not negative
  int64_t channel_axis = -1;
  static void fields(auto&& visit) {
    visit("epsilon", &ChannelNormOptions::epsilon);
    visit("channel_axis", &ChannelNormOptions::channel_axis);
  }
};

struct BatchNormOutput {
  Value output;  // of x's type
  // These are the batch's: [channels], f64 for x of f64 and else f32, so that running averages of
  // them do not stand still. The variance is that of a population: over n elements; times n / (n -
  // 1) it estimates that of what the batch was drawn from.
  Value mean;
  Value variance;
};

// Normalises x [batch, ..., channels, ...]: (x - mean) / sqrt(variance + epsilon) * scale + offset,
// with the mean and variance over all axes but the channels'. `scale` and `offset` are of shape
// [channels] and x's dtype. Gradients flow through the statistics, too. Those of an
// empty batch are NaN. Errors name `site`, or where that is not given the line that made x.
KEEL_API BatchNormOutput batch_norm(Operand x, Operand scale, Operand offset,
                                    ChannelNormOptions options = {}, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_BATCH_NORM_H
