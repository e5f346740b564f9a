// Convolutions over images, and their two gradients as ops of their own. What is made of them, for
// sequences and the other way round, is in composed/convolutions.h. One number
// dtype throughout; floats are accumulated in at least f32 (f64 in f64) and rounded once, integers
// wrap. A convolution is the cross-correlation that the field calls so: weights are not flipped.
//
// Images are [batch, height, width, channels] ("NHWC") or [batch, channels, height, width]
// ("NCHW"). Weights go with them: [kernel height, kernel width, in, out] ("HWIO") beside NHWC,
// [out, in, kernel height, kernel width] ("OIHW") beside NCHW. With `groups`, `in` counts the
// channels of one group: group g takes the g-th part of x's channels to the g-th part of `out`; as
// many groups as channels is a depthwise convolution.
//
// Each function adds one node to the graph of the call (graph/ir/emit.h); dimensions that are not
// known (-1) pass through. Errors and printed graphs name `site`, or where that is not given the
// line that made the first operand.
#ifndef KEEL_OPS_CONV_H
#define KEEL_OPS_CONV_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

inline constexpr const char* kAutoAlgorithm = "auto";
inline constexpr const char* kDirectAlgorithm = "direct";

// Lists of two are height and width; one number stands for both.
struct Conv2dAttributes {
  std::vector<int64_t> stride = {1, 1};
  // "valid": no padding. "same": ceil(size / stride) windows, the zeros that they need in equal
  // parts in front and behind, the odd one behind. "explicit": `pads` zeros.
  std::string padding = "valid";
  std::vector<int64_t> pads = {};  // top, bottom, left, right, where padding is "explicit"
  std::vector<int64_t> dilation = {1, 1};
  int64_t groups = 1;
  std::string layout = "NHWC";
  bool wide = false;  // f16 or bf16 operands, f32 result: the sums as accumulated
  // "direct": each result is the sum of its own terms, within the product bound. "auto": backends
  // may compute floats by transformed tiles where that is faster (products/winograd.h), with
  // errors relative to the elements around.
  std::string algorithm = kAutoAlgorithm;
  // An image's results, and the weights' gradient over a part of the images, have the bits that
  // they have whatever other images and parts there are. Other numbers of channels may change the
  // bits.
  bool rows_alone = false;
  static void fields(auto&& visit) {
    visit("stride", &Conv2dAttributes::stride);
    visit("padding", &Conv2dAttributes::padding);
    visit("pads", &Conv2dAttributes::pads);
    visit("dilation", &Conv2dAttributes::dilation);
    visit("groups", &Conv2dAttributes::groups);
    visit("layout", &Conv2dAttributes::layout);
    visit("wide", &Conv2dAttributes::wide);
    visit("algorithm", &Conv2dAttributes::algorithm);
    visit("rows_alone", &Conv2dAttributes::rows_alone);
  }
};

// The gradients have the attributes of their convolution, and what the operands cannot tell.
struct Conv2dGradientAttributes : Conv2dAttributes {
  // Height and width of the result: of the images, or of the weights.
  std::vector<int64_t> size = {};
  // The gradient for the weights has parts: sums over so many parts of the images, which are added
  // as a tree (ops/sums/part_sums.h).
  int64_t parts = 1;
  static void fields(auto&& visit) {
    Conv2dAttributes::fields(visit);
    visit("size", &Conv2dGradientAttributes::size);
    visit("parts", &Conv2dGradientAttributes::parts);
  }
};

// y[n, i, j, o] = sum over a, b, c of x[n, i * stride + a * dilation - top, ..., c] *
// weights[a, b, c, o], x being 0 where it is padded. Throws Error for operands of another rank or
// dtypes that differ, channels that the groups do not divide, and a window that does not fit.
KEEL_API Value conv2d(Operand x, Operand weights, const Conv2dAttributes& options = {},
                      CallSite site = {});

// The gradient of sum(conv2d(x, weights) * dy) for x, whose height and width are `size`. Without
// one it is the smallest that gives dy's height and width, with "same" dy's times the stride.
KEEL_API Value conv2d_input_gradient(Operand dy, Operand weights,
                                     const Conv2dAttributes& options = {},
                                     const std::vector<int64_t>& size = {}, CallSite site = {});
// The same for weights, whose height and width are `size`.
KEEL_API Value conv2d_weight_gradient(Operand x, Operand dy, const std::vector<int64_t>& size,
                                      const Conv2dAttributes& options = {}, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_CONV_H
