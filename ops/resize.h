// Images of another height and width, by the nearest element or by linear interpolation. Element
// centres lie at half-pixel positions: element i of the result lies at (i + 0.5) * in / out - 0.5
// of the image, as in TensorFlow 2 and in ONNX ("half_pixel"). Images are [batch, height, width,
// channels] ("NHWC") or [batch, channels, height, width] ("NCHW").
//
// Each function adds one node to the graph of the call (graph/ir/emit.h); dimensions that are not
// known (-1) pass through. Errors and printed graphs name `site`, or where that is not given the
// line that made the first operand.
#ifndef KEEL_OPS_RESIZE_H
#define KEEL_OPS_RESIZE_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct ResizeAttributes {
  std::vector<int64_t> size;  // height and width of the result
  // "nearest": the element that the position lies in, floor((i + 0.5) * in / out); any dtype.
  // "bilinear": the four around it, those beyond the edge being those at it; floats only. Nothing
  // is smoothed where an image shrinks.
  std::string mode = "nearest";
  std::string layout = "NHWC";
  static void fields(auto&& visit) {
    visit("size", &ResizeAttributes::size);
    visit("mode", &ResizeAttributes::mode);
    visit("layout", &ResizeAttributes::layout);
  }
};

// Throws Error for an x of another rank, an empty image, and a dtype that the mode refuses.
KEEL_API Value resize(Operand x, ResizeAttributes options, CallSite site = {});
// Returns the gradient of sum(resize(x) * dy) for x; options.size is x's height and width, which
// the result has. Floats only.
KEEL_API Value resize_gradient(Operand dy, ResizeAttributes options, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_RESIZE_H
