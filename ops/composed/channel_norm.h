// batch_norm and group_norm: normalisation by channel, of values [batch, ..., channels, ...].
// Compositions of ops in the graph of x; floats only. 16-bit values are computed in f32 and rounded
// once; their statistics are f32, so that running averages of them do not stand still. Sources:
// Ioffe and Szegedy, "Batch Normalization" (2015); Wu and He, "Group Normalization" (2018).
//
// `scale` and `offset` are of shape [channels] and x's dtype. Errors name `site`, or where that is
// not given the line that made x.
#ifndef KEEL_OPS_COMPOSED_CHANNEL_NORM_H
#define KEEL_OPS_COMPOSED_CHANNEL_NORM_H

#include <cstdint>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct ChannelNormOptions {
  double epsilon = 1e-5;  // added to the variance; finite, not negative
  int64_t channel_axis = -1;
};

struct BatchNormOutput {
  Value output;  // of x's type
  // These are the batch's: [channels], f64 for x of f64 and else f32. The variance is that of a
  // population: over n elements; times n / (n - 1) it estimates that of what the batch was drawn
  // from.
  Value mean;
  Value variance;
};

// Normalises for training: (x - mean) / sqrt(variance + epsilon) * scale + offset, with the mean
// and variance over all axes but the channels'. Gradients flow through both. Of an empty batch they
// are NaN.
KEEL_API BatchNormOutput batch_norm(Operand x, Operand scale, Operand offset,
                                    ChannelNormOptions options = {}, CallSite site = {});

// Normalises for inference: the same with statistics kept by training, [channels] each, of the
// dtype that batch_norm gives. It is (x - mean) * a + offset with a made of channels alone, which a
// product before it takes as its epilogue.
KEEL_API Value batch_norm_inference(Operand x, Operand scale, Operand offset, Operand mean,
                                    Operand variance, ChannelNormOptions options = {},
                                    CallSite site = {});

// The channels cut into `groups` of equal size; the mean and variance are those of each group of
// each element of the batch (axis 0). All dimensions but one must be known, the channels among
// them.
KEEL_API Value group_norm(Operand x, int64_t groups, Operand scale, Operand offset,
                          ChannelNormOptions options = {}, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_CHANNEL_NORM_H
