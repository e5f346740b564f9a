// Resizing of images, with each of the three rules for where an element of the result lies. The
// positions are computed in f32, as TensorFlow 1.15's image_resizer_state.h does, so that the same
// elements are chosen.
#include "keel/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/onnx/import_taps.h"
#include "keel/ops/shape.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;

struct Positions {
  bool corners = false;     // the first and the last elements lie on each other
  bool half_pixel = false;  // elements lie in the middle of their pixels; else at the edge
};

float scale_of(const Positions& positions, int64_t in, int64_t out) {
  return positions.corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                      : static_cast<float>(in) / static_cast<float>(out);
}

onnx::Taps nearest_taps(const Positions& positions, int64_t in, int64_t out) {
  const float scale = scale_of(positions, in, out);
  onnx::Taps taps{{{}}, {}};
  for (int64_t i = 0; i < out; ++i) {
    const auto x = static_cast<float>(i);
    const float at = positions.half_pixel ? (x + 0.5f) * scale : x * scale;
    const float whole = positions.corners ? std::round(at) : std::floor(at);
    taps.elements[0].push_back(std::clamp<int64_t>(static_cast<int64_t>(whole), 0, in - 1));
  }
  return taps;
}

onnx::Taps linear_taps(const Positions& positions, int64_t in, int64_t out) {
  const float scale = scale_of(positions, in, out);
  onnx::Taps taps{{{}, {}}, {{}, {}}};
  for (int64_t i = 0; i < out; ++i) {
    const auto x = static_cast<float>(i);
    const float at = positions.half_pixel ? (x + 0.5f) * scale - 0.5f : x * scale;
    const float first = std::floor(at);
    const double share = static_cast<double>(at - first);
    const auto low = static_cast<int64_t>(first);
    taps.elements[0].push_back(std::clamp<int64_t>(low, 0, in - 1));
    taps.elements[1].push_back(std::clamp<int64_t>(low + 1, 0, in - 1));
    taps.weights[0].push_back(1 - share);
    taps.weights[1].push_back(share);
  }
  return taps;
}

Positions positions_of(NodeContext& c) {
  const Positions positions{.corners = c.attribute("align_corners", int64_t{0}) != 0,
                            .half_pixel = c.attribute("half_pixel_centers", int64_t{0}) != 0};
  if (positions.corners && positions.half_pixel)
    c.refuse("align_corners and half_pixel_centers exclude each other");
  return positions;
}

std::vector<int64_t> image_size_of(NodeContext& c) {
  std::vector<int64_t> size = c.integers(1, "the size");
  if (size.size() != 2) c.refuse("its size is not two numbers");
  return size;
}

// The elements of a result along one axis, each by what it is made of.
onnx::Taps taps_of(NodeContext& c, const Positions& positions, bool linear, int64_t in,
                   int64_t out) {
  constexpr int64_t kMost = 1 << 24;
  if (in < 1 || out < 1 || in > kMost || out > kMost)
    c.refuse("height and width have to be known, and from 1 to 2^24");
  return linear ? linear_taps(positions, in, out) : nearest_taps(positions, in, out);
}

Values resize_as(NodeContext& c, Value x, bool linear) {
  c.require_rank(x, 4, 4, "its images are");
  const std::vector<int64_t> size = image_size_of(c);
  const Positions positions = positions_of(c);
  // One op of Keel's has these positions. Its shares may differ in their last digits; the nearest
  // elements must not, as an element beside the right one is another number altogether.
  if (positions.half_pixel && linear) return {resize(x, {.size = size, .mode = "bilinear"}, {})};
  for (const size_t axis : {1u, 2u}) {
    const int64_t in = x.shape({})[axis], out = size[axis - 1];
    const onnx::Taps taps = taps_of(c, positions, linear, in, out);
    if (in != out) x = onnx::tapped_along(c, x, axis, taps, linear);
  }
  return {x};
}

// The result of the bilinear op is f32, whatever the images are.
Values resize_bilinear(NodeContext& c) {
  const Value x = c.in(0);
  return resize_as(c, x.dtype({}) == f32 ? x : cast(x, f32, {}), true);
}
Values resize_nearest(NodeContext& c) { return resize_as(c, c.in(0), false); }

// ---- gradients: each element's slope goes to the elements that it was made of

Value spread_along(NodeContext& c, const Value& dy, size_t axis, int64_t in, const onnx::Taps& taps,
                   bool weighted) {
  std::vector<int64_t> order{0, 1, 2, 3};
  std::swap(order[0], order[axis]);
  const Value slopes = transpose(dy, order, {});
  std::vector<int64_t> dims(slopes.shape({}).begin(), slopes.shape({}).end());
  dims[0] = in;
  Value dx = zeros_of(c.graph(), {dy.dtype({}), Shape(dims)}, {});
  const auto count = static_cast<int64_t>(taps.elements[0].size());
  for (size_t k = 0; k < taps.elements.size(); ++k) {
    Value share = slopes;
    if (weighted) {
      const Tensor weights = Tensor::of<double>({count}, taps.weights[k]).cast(dy.dtype({}), {});
      share = mul(slopes, onnx::along_axis(c.result(weights), 0, 4), {});
    }
    dx = scatter_add(dx, c.result(Tensor::of<int64_t>({count}, taps.elements[k])), share, {});
  }
  return transpose(dx, order, {});
}

// The height and width of the images are given by `size`.
Values resize_gradient_as(NodeContext& c, const std::vector<int64_t>& size, bool linear) {
  Value dx = c.in(0);
  c.require_rank(dx, 4, 4, "its slope is");
  c.known_shape(dx, "its slope");
  const Positions positions = positions_of(c);
  for (const size_t axis : {1u, 2u}) {
    const int64_t in = size[axis - 1], out = dx.shape({})[axis];
    const onnx::Taps taps = taps_of(c, positions, linear, in, out);
    if (in != out) dx = spread_along(c, dx, axis, in, taps, linear);
  }
  return {dx};
}

Values resize_bilinear_gradient(NodeContext& c) {
  const Value x = c.in(1);
  c.require_rank(x, 4, 4, "its images are");
  return resize_gradient_as(c, {x.shape({})[1], x.shape({})[2]}, true);
}
Values resize_nearest_gradient(NodeContext& c) {
  return resize_gradient_as(c, image_size_of(c), false);
}

}  // namespace

void register_graphdef_resize(OpRules& rules) {
  rules.add("ResizeBilinear", resize_bilinear);
  rules.add("ResizeNearestNeighbor", resize_nearest);
  rules.add("ResizeBilinearGrad", resize_bilinear_gradient);
  rules.add("ResizeNearestNeighborGrad", resize_nearest_gradient);
}

}  // namespace keel::graphdef
