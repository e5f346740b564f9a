// Convolutions made of conv2d and its gradients: over sequences, and the other way round. Each adds
// one of those nodes, conv1d also views around it. Errors and printed graphs name `site`, or where
// that is not given the line that made the first operand.
#ifndef KEEL_OPS_COMPOSED_CONVOLUTIONS_H
#define KEEL_OPS_COMPOSED_CONVOLUTIONS_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/ops/conv.h"

namespace keel {

// Returns the transposed convolution: what conv2d with these weights and options makes of an image,
// the other way round. Its weights are those of that conv2d, so `out` counts x's channels and `in`
// the result's (of a group). `size` is the result's height and width, where several give x's.
KEEL_API Value conv_transpose2d(Operand x, Operand weights, const Conv2dAttributes& options = {},
                                const std::vector<int64_t>& size = {}, CallSite site = {});

struct Conv1dOptions {
  int64_t stride = 1;
  std::string padding = "valid";   // as for conv2d
  std::vector<int64_t> pads = {};  // in front, behind
  int64_t dilation = 1;
  int64_t groups = 1;
  std::string layout = "NWC";  // or "NCW"
  bool wide = false;
};
// Returns a convolution over sequences: x is [batch, width, channels] with weights [kernel, in,
// out]
// ("NWC"), or [batch, channels, width] with [out, in, kernel] ("NCW"). A conv2d of one row.
KEEL_API Value conv1d(Operand x, Operand weights, Conv1dOptions options = {}, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_CONVOLUTIONS_H
