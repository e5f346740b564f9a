// Batch norm for inference and group_norm: normalisation by channel, of values [batch, ...,
// channels, ...]. Compositions of ops in the graph of x; floats only. 16-bit values are computed in
// f32 and rounded once. Source: Wu and He, "Group Normalization" (2018).
//
// `scale` and `offset` are of shape [channels] and x's dtype. Errors name `site`, or where that is
// not given the line that made x.
#ifndef KEEL_OPS_COMPOSED_CHANNEL_NORM_H
#define KEEL_OPS_COMPOSED_CHANNEL_NORM_H

#include <cstdint>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"
#include "keel/ops/batch_norm.h"

namespace keel {

// Normalises for inference: batch_norm with statistics kept by training, [channels] each, of the
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
