// Pooling of images: the largest element or the mean of each window, and their gradients as ops of
// their own. Images are [batch, height, width, channels] ("NHWC") or [batch, channels, height,
// width] ("NCHW"); each channel is pooled by itself. Pooling of whole images
// is in composed/global_pooling.h.
//
// Each function adds one node to the graph of the call (graph/ir/emit.h); dimensions that are not
// known (-1) pass through. Errors and printed graphs name `site`, or where that is not given the
// line that made the first operand.
#ifndef KEEL_OPS_POOL_H
#define KEEL_OPS_POOL_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Lists of two are height and width; one number stands for both.
struct MaxPool2dAttributes {
  std::vector<int64_t> window;
  std::vector<int64_t> stride = {};  // the window's size where left out
  std::string padding = "valid";     // as for conv2d: valid, same, explicit
  std::vector<int64_t> pads = {};    // top, bottom, left, right, each smaller than the window
  std::string layout = "NHWC";
  static void fields(auto&& visit) {
    visit("window", &MaxPool2dAttributes::window);
    visit("stride", &MaxPool2dAttributes::stride);
    visit("padding", &MaxPool2dAttributes::padding);
    visit("pads", &MaxPool2dAttributes::pads);
    visit("layout", &MaxPool2dAttributes::layout);
  }
};

struct AvgPool2dAttributes {
  std::vector<int64_t> window;
  std::vector<int64_t> stride = {};
  std::string padding = "valid";
  std::vector<int64_t> pads = {};
  std::string layout = "NHWC";
  // Says whether the mean of a window that reaches over the edge counts the padding, as zeros.
  bool count_padding = false;
  static void fields(auto&& visit) {
    visit("window", &AvgPool2dAttributes::window);
    visit("stride", &AvgPool2dAttributes::stride);
    visit("padding", &AvgPool2dAttributes::padding);
    visit("pads", &AvgPool2dAttributes::pads);
    visit("layout", &AvgPool2dAttributes::layout);
    visit("count_padding", &AvgPool2dAttributes::count_padding);
  }
};

// Attributes of the gradient: they add the height and width of the images, which is the result's.
struct AvgPool2dGradientAttributes : AvgPool2dAttributes {
  std::vector<int64_t> size;
  static void fields(auto&& visit) {
    AvgPool2dAttributes::fields(visit);
    visit("size", &AvgPool2dGradientAttributes::size);
  }
};

// Returns the largest element of each window, padding left out; NaN where there is one. A number
// dtype. Throws Error for operands of another rank, a window that does not fit and pads as large as
// it.
KEEL_API Value max_pool2d(Operand x, MaxPool2dAttributes options, CallSite site = {});
// Returns the gradient of sum(max_pool2d(x) * dy) for x: each element of dy goes to the first of
// the largest elements of its window, in row-major order. Floats only.
KEEL_API Value max_pool2d_gradient(Operand x, Operand dy, MaxPool2dAttributes options,
                                   CallSite site = {});

// Returns the mean of each window, summed in at least f32 and rounded once. Floats only. Throws
// Error as max_pool2d does.
KEEL_API Value avg_pool2d(Operand x, AvgPool2dAttributes options, CallSite site = {});
// Returns the gradient of sum(avg_pool2d(x) * dy) for x, whose height and width are `size`.
KEEL_API Value avg_pool2d_gradient(Operand dy, const std::vector<int64_t>& size,
                                   AvgPool2dAttributes options, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_POOL_H
