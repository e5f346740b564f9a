#include "keel/ops/resize.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axis_to_front.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/shape.h"
#include "keel/ops/wide_floats.h"
#include "keel/ops/window_rules.h"

namespace keel {
namespace {

constexpr const char* kNearest = "nearest";
constexpr const char* kBilinear = "bilinear";

// ---- where elements come from

// Holds for each element of the result along one axis the elements of the image that it lies
// between, and which share of it the second one has. With a share of 0 the second does not count at
// all, even where it is infinite.
struct AxisSources {
  std::vector<int64_t> first, second;
  std::vector<double> share;
};

// Says whether there are no elements. Height and width may then be as large as they like, and
// sources of each row and column would take time and memory for nothing.
bool is_empty(const Shape& shape) { return shape.known() && shape.num_elements() == 0; }

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// Exact, in integers: twice the position of i times `out` is (2 i + 1) * in - out.
AxisSources sources_of(const std::string& mode, int64_t in, int64_t out) {
  AxisSources sources;
  for (int64_t i = 0; i < out; ++i) {
    if (mode == kNearest) {
      sources.first.push_back((2 * i + 1) * in / (2 * out));
      sources.second.push_back(sources.first.back());
      sources.share.push_back(0);
      continue;
    }
    const int64_t position = (2 * i + 1) * in - out;
    const int64_t below = floor_div(position, 2 * out);
    const int64_t rest = position - below * 2 * out;
    sources.first.push_back(std::clamp<int64_t>(below, 0, in - 1));
    sources.second.push_back(std::clamp<int64_t>(below + 1, 0, in - 1));
    sources.share.push_back(static_cast<double>(rest) / static_cast<double>(2 * out));
  }
  return sources;
}

// ---- inference

void require_resize(const InferContext& c, const ResizeAttributes& a) {
  require_layout(c, a.layout);
  if (a.mode != kNearest && a.mode != kBilinear)
    c.fail("mode", "nearest or bilinear", '"' + a.mode + '"');
  require_dtypes(c, 0, a.mode == kNearest ? kAnyDType : kFloats);
  c.require_rank(0, 4, 4);
  require_list(c, "size", a.size, 2, 0);
}

// Throws Error where `images` cannot be resized to `size`.
void require_source(const InferContext& c, const char* argument, Pair images, Pair size,
                    const Shape& shape) {
  for (size_t i = 0; i < 2; ++i) {
    if (images[i] == 0 && size[i] > 0) c.fail(argument, "an image with elements", to_string(shape));
    if (images[i] > 0) checked_mul(checked_mul(2, size[i], "resize"), images[i], "resize");
  }
}

std::vector<Type> infer_resize(const InferContext& c) {
  const auto& a = c.as<ResizeAttributes>();
  require_resize(c, a);
  const ImageAxes axes = image_axes(a.layout);
  const Shape& x = c.inputs[0].shape;
  const Pair size{a.size[0], a.size[1]};
  require_source(c, "x", spatial_dims(x, axes), size, x);
  return {{c.inputs[0].dtype, image_shape(axes, x[0], size, x[axes.channel])}};
}

std::vector<Type> infer_resize_gradient(const InferContext& c) {
  const auto& a = c.as<ResizeAttributes>();
  require_resize(c, a);
  require_dtypes(c, 0, kFloats);
  const ImageAxes axes = image_axes(a.layout);
  const Shape& dy = c.inputs[0].shape;
  const Pair size{a.size[0], a.size[1]};
  const Shape images = image_shape(axes, dy[0], size, dy[axes.channel]);
  require_source(c, "size", size, spatial_dims(dy, axes), images);
  return {{c.inputs[0].dtype, images}};
}

// ---- references

// Calls body(result, image, weight) for each element of an image that an element of the result
// takes a share of.
template <class Body>
void for_each_source(const ResizeAttributes& a, const Shape& images, const Shape& results,
                     Body&& body) {
  if (is_empty(images) || is_empty(results)) return;
  const ImageAxes axes = image_axes(a.layout);
  const Strides of_image = images.strides(), of_result = results.strides();
  std::array<AxisSources, 2> sources;
  Strides start = of_image;  // along the batch and the channels
  for (size_t i = 0; i < 2; ++i) {
    sources[i] = sources_of(a.mode, images[axes.spatial[i]], results[axes.spatial[i]]);
    start[axes.spatial[i]] = 0;
  }
  for_each_strided(results, std::array<Strides, 2>{start, of_result}, [&](const auto& at) {
    const auto part = [&](size_t i, bool second) -> std::pair<int64_t, double> {
      const size_t axis = axes.spatial[i];
      const auto n = static_cast<size_t>(at[1] / of_result[axis] % results[axis]);
      const AxisSources& s = sources[i];
      return {(second ? s.second[n] : s.first[n]) * of_image[axis],
              second ? s.share[n] : 1 - s.share[n]};
    };
    for (const bool below : {false, true}) {
      for (const bool right : {false, true}) {
        const auto [row, height] = part(0, below);
        const auto [column, width] = part(1, right);
        if (height * width != 0) body(at[1], at[0] + row + column, height * width);
      }
    }
  });
}

void reference_resize(const ReferenceContext& c) {
  const auto& a = c.as<ResizeAttributes>();
  visit_dtype(c.inputs[0].dtype(), [&]<class T>() {
    const T* x = c.inputs[0].data<T>().data();
    T* y = c.outputs[0].data<T>().data();
    if constexpr (is_float(dtype_of<T>)) {
      std::vector<double> sums(static_cast<size_t>(c.outputs[0].num_elements()), 0);
      std::vector<bool> filled(sums.size(), false);
      for_each_source(a, c.inputs[0].shape(), c.outputs[0].shape(),
                      [&](int64_t to, int64_t from, double weight) {
                        const auto i = static_cast<size_t>(to);
                        const double part = weight == 1 ? load(x, from) : weight * load(x, from);
                        sums[i] = filled[i] ? sums[i] + part : part;
                        filled[i] = true;
                      });
      for (size_t i = 0; i < sums.size(); ++i) store(y, static_cast<int64_t>(i), sums[i]);
    } else {
      for_each_source(a, c.inputs[0].shape(), c.outputs[0].shape(),
                      [&](int64_t to, int64_t from, double) { y[to] = x[from]; });
    }
  });
}

void reference_resize_gradient(const ReferenceContext& c) {
  std::vector<double> sums(static_cast<size_t>(c.outputs[0].num_elements()), 0);
  for_each_source(c.as<ResizeAttributes>(), c.outputs[0].shape(), c.inputs[0].shape(),
                  [&](int64_t from, int64_t to, double weight) {
                    sums[static_cast<size_t>(to)] += weight * c.inputs[0].at(from);
                  });
  for (size_t i = 0; i < sums.size(); ++i) c.outputs[0].set(static_cast<int64_t>(i), sums[i]);
}

// ---- gradients

// Returns the same resizing with the size of `images`.
ResizeAttributes with_size_of(ResizeAttributes a, const Shape& images) {
  const Pair size = spatial_dims(images, image_axes(a.layout));
  a.size = {size[0], size[1]};
  return a;
}

Values gradient_resize(const BuildContext& c) {
  const auto a = with_size_of(c.as<ResizeAttributes>(), c.inputs[0].shape());
  return {resize_gradient(c.output_gradients[0], a, c.site)};
}
Values gradient_resize_gradient(const BuildContext& c) {
  const auto a = with_size_of(c.as<ResizeAttributes>(), c.inputs[0].shape());
  return {resize(c.output_gradients[0], a, c.site)};
}

// ---- decompositions: one axis after the other

Value index_constant(const BuildContext& c, const std::vector<int64_t>& indices) {
  Tensor t(i64, {static_cast<int64_t>(indices.size())});
  std::copy(indices.begin(), indices.end(), t.data<int64_t>().begin());
  return c.graph.constant(t, c.site);
}

// Returns the second elements' shares, to be multiplied with values along `axis` of 4.
Value share_constant(const BuildContext& c, DType dtype, const std::vector<double>& shares,
                     size_t axis) {
  Shape shape{1, 1, 1, 1};
  Tensor t(dtype, shape.with_dim(axis, static_cast<int64_t>(shares.size())));
  for (size_t i = 0; i < shares.size(); ++i) t.set(static_cast<int64_t>(i), shares[i]);
  return c.graph.constant(t, c.site);
}

bool has_shares(const AxisSources& sources) {
  return std::any_of(sources.share.begin(), sources.share.end(), [](double s) { return s != 0; });
}

Value resize_axis(const BuildContext& c, const Value& x, const AxisSources& sources, size_t axis) {
  const CallSite site = c.site;
  const auto along = static_cast<int64_t>(axis);
  const Value first = gather(x, index_constant(c, sources.first), along, site);
  if (!has_shares(sources)) return first;
  const Value second = gather(x, index_constant(c, sources.second), along, site);
  const Value share = share_constant(c, x.dtype(), sources.share, axis);
  const Value mixed = add(mul(first, sub(1, share, site), site), mul(second, share, site), site);
  return select(equal(share, 0, site), first, mixed, site);
}

Values decompose_resize(const BuildContext& c) {
  const auto& a = c.as<ResizeAttributes>();
  const ImageAxes axes = image_axes(a.layout);
  const DType dtype = c.inputs[0].dtype();
  const Shape& x = c.inputs[0].shape();
  const Shape results = image_shape(axes, x[0], {a.size[0], a.size[1]}, x[axes.channel]);
  if (is_empty(results)) return {zeros_of(c.graph, {dtype, results}, c.site)};
  Value y = a.mode == kNearest ? c.inputs[0] : widened(c.inputs[0], c.site);
  for (size_t i = 0; i < 2; ++i) {
    const size_t axis = axes.spatial[i];
    const int64_t in = y.shape()[axis];
    if (in != a.size[i]) y = resize_axis(c, y, sources_of(a.mode, in, a.size[i]), axis);
  }
  return {cast(y, dtype, c.site)};
}

// Returns the adjoint of resize_axis: what is gathered there is added here.
Value resize_axis_back(const BuildContext& c, const Value& dy, const AxisSources& sources,
                       size_t axis, int64_t in) {
  const CallSite site = c.site;
  const std::vector<int64_t> to_front = axes_to_front(static_cast<int64_t>(axis), 1, 4);
  const auto added = [&](const Value& sum, const std::vector<int64_t>& indices, const Value& rows) {
    return scatter_add(sum, index_constant(c, indices), transpose(rows, to_front, site), site);
  };
  const Shape shape = transpose(dy, to_front, site).shape().with_dim(0, in);
  Value dx = zeros_of(c.graph, {dy.dtype(), shape}, site);
  if (has_shares(sources)) {
    const Value share = share_constant(c, dy.dtype(), sources.share, axis);
    const Value none = equal(share, 0, site);
    dx = added(dx, sources.first, select(none, dy, mul(dy, sub(1, share, site), site), site));
    dx = added(dx, sources.second, select(none, 0, mul(dy, share, site), site));
  } else {
    dx = added(dx, sources.first, dy);
  }
  return transpose(dx, front_to_axis(static_cast<int64_t>(axis), 4), site);
}

Values decompose_resize_gradient(const BuildContext& c) {
  const auto& a = c.as<ResizeAttributes>();
  const ImageAxes axes = image_axes(a.layout);
  const DType dtype = c.inputs[0].dtype();
  const Shape& dy = c.inputs[0].shape();
  const Shape images = image_shape(axes, dy[0], {a.size[0], a.size[1]}, dy[axes.channel]);
  if (is_empty(images) || is_empty(dy)) return {zeros_of(c.graph, {dtype, images}, c.site)};
  Value dx = widened(c.inputs[0], c.site);
  for (size_t i = 0; i < 2; ++i) {
    const size_t axis = axes.spatial[i];
    const int64_t out = dx.shape()[axis];
    if (out == a.size[i]) continue;
    dx = resize_axis_back(c, dx, sources_of(a.mode, a.size[i], out), axis, a.size[i]);
  }
  return {cast(dx, dtype, c.site)};
}

// ---- samples

struct DrawnResize {
  ResizeAttributes a;
  Shape images, results;
};

DrawnResize draw_resize(SampleSource& source) {
  DrawnResize drawn;
  drawn.a.mode = is_float(source.dtype()) && source.coin() ? kBilinear : kNearest;
  drawn.a.layout = source.coin() ? kChannelsLast : kChannelsFirst;
  const ImageAxes axes = image_axes(drawn.a.layout);
  const int64_t batch = source.integer(0, 7) == 0 ? 0 : source.integer(1, 3);
  const int64_t channels = source.integer(1, 3);
  const auto size = [&]() -> Pair {
    const int64_t most = 4 + source.size() / 20;
    return {source.integer(1, most), source.integer(1, most)};
  };
  drawn.images = image_shape(axes, batch, size(), channels);
  drawn.results = image_shape(axes, batch, size(), channels);
  return drawn;
}

Sample sample_resize(SampleSource& source) {
  const DrawnResize drawn = draw_resize(source);
  return {.inputs = {source.values(drawn.images)},
          .build = [a = with_size_of(drawn.a, drawn.results)](Graph&, const Values& v) -> Values {
            return {resize(v[0], a)};
          }};
}
Sample sample_resize_gradient(SampleSource& source) {
  if (!is_float(source.dtype())) return {};
  const DrawnResize drawn = draw_resize(source);
  return {.inputs = {source.values(drawn.results)},
          .build = [a = with_size_of(drawn.a, drawn.images)](Graph&, const Values& v) -> Values {
            return {resize_gradient(v[0], a)};
          }};
}

// One number stands for both axes.
Attributes completed(ResizeAttributes a) {
  a.size = for_both_axes(a.size);
  return Attributes::of(std::move(a));
}

}  // namespace

void register_resize(OpTable& table) {
  table.add({.name = "resize",
             .summary = "images of another size, by the nearest element or linearly",
             .input_names = {"x"},
             .attributes = &attributes_schema<ResizeAttributes>(),
             .infer = infer_resize,
             .reference = reference_resize,
             .gradient = gradient_resize,
             .decompose = decompose_resize,
             .bound = {.ulps = 1, .k = 4},
             .sample = sample_resize});
  table.add({.name = "resize_gradient",
             .summary = "the gradient of resize",
             .input_names = {"dy"},
             .attributes = &attributes_schema<ResizeAttributes>(),
             .infer = infer_resize_gradient,
             .reference = reference_resize_gradient,
             .gradient = gradient_resize_gradient,
             .decompose = decompose_resize_gradient,
             .bound = {.ulps = 2, .k = 32},
             .sample = sample_resize_gradient});
}

Value resize(Operand x, ResizeAttributes options, CallSite site) {
  return emit("resize", {x}, completed(std::move(options)), site);
}
Value resize_gradient(Operand dy, ResizeAttributes options, CallSite site) {
  return emit("resize_gradient", {dy}, completed(std::move(options)), site);
}

}  // namespace keel
