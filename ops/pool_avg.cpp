// avg_pool2d and its gradient.
#include <utility>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/pool_rules.h"

namespace keel {
namespace {

// ---- inference

std::vector<Type> infer_avg_gradient(const InferContext& c) {
  require_dtypes(c, 0, kFloats);
  c.require_rank(0, 4, 4);
  const auto& a = c.as<AvgPool2dGradientAttributes>();
  require_layout(c, a.layout);
  require_list(c, "size", a.size, 2, 0);
  const ImageAxes axes = image_axes(a.layout);
  const Shape& dy = c.inputs[0].shape;
  const Shape images = image_shape(axes, dy[0], {a.size[0], a.size[1]}, dy[axes.channel]);
  require_results_shape(c, 0, infer_pooled(c, a, images));
  return {{c.inputs[0].dtype, images}};
}

// ---- references

double area(const std::vector<int64_t>& window) {
  return static_cast<double>(window[0]) * static_cast<double>(window[1]);
}

// Returns what a window's sum is divided by.
double divisor(const AvgPool2dAttributes& a, const std::vector<int64_t>& window) {
  return a.count_padding ? area(a.window) : static_cast<double>(window.size());
}

void reference_avg(const ReferenceContext& c) {
  const auto& a = c.as<AvgPool2dAttributes>();
  const PoolGeometry g(a, c.inputs[0].shape());
  const Tensor& x = c.inputs[0];
  g.for_each_window([&](int64_t to, const std::vector<int64_t>& window) {
    double total = 0;
    for (const int64_t i : window) total += x.at(i);
    c.outputs[0].set(to, total / divisor(a, window));
  });
}

void reference_avg_gradient(const ReferenceContext& c) {
  const auto& a = c.as<AvgPool2dGradientAttributes>();
  const PoolGeometry g(a, c.outputs[0].shape());
  std::vector<double> sums(static_cast<size_t>(c.outputs[0].num_elements()), 0);
  g.for_each_window([&](int64_t from, const std::vector<int64_t>& window) {
    const double share = c.inputs[0].at(from) / divisor(a, window);
    for (const int64_t i : window) sums[static_cast<size_t>(i)] += share;
  });
  for (size_t i = 0; i < sums.size(); ++i) c.outputs[0].set(static_cast<int64_t>(i), sums[i]);
}

// ---- decompositions; NCHW is transposed to NHWC and back

// Returns the divisor of each window as a Value to divide by; one number where all are equal.
Value divisors(const BuildContext& c, const AvgPool2dAttributes& a, const PoolGeometry& g,
               DType dtype) {
  const double whole = area(a.window);
  Tensor counts(dtype, image_shape(g.axes, 1, {g.windows[0].out, g.windows[1].out}, 1));
  bool equal = true;
  int64_t at = 0;
  const auto elements = [](const WindowAxis& w, int64_t window) {
    int64_t count = 0;
    for (int64_t k = 0; k < w.taps; ++k) count += w.inside(w.position(window, k)) ? 1 : 0;
    return count;
  };
  for (int64_t i = 0; i < g.windows[0].out; ++i) {
    for (int64_t j = 0; j < g.windows[1].out; ++j) {
      const auto count = static_cast<double>(elements(g.windows[0], i) * elements(g.windows[1], j));
      equal = equal && (a.count_padding || count == whole);
      counts.set(at++, count);
    }
  }
  return c.graph.constant(equal ? Tensor::full(dtype, Shape{}, whole) : counts, c.site);
}

Values decompose_avg(const BuildContext& c) {
  const auto& a = c.as<AvgPool2dAttributes>();
  const PoolGeometry g(a, c.inputs[0].shape());
  const DType dtype = c.inputs[0].dtype();
  if (g.results.num_elements() == 0) return {zeros_of(c.graph, {dtype, g.results}, c.site)};
  if (a.layout == kChannelsFirst) {
    const Value last = transpose(c.inputs[0], kImageToLast, c.site);
    return {transpose(avg_pool2d(last, channels_last(a), c.site), kImageToFirst, c.site)};
  }
  const Value x = widened(c.inputs[0], c.site);
  const Value total =
      join_windows(padded_image(x, g.windows, g.axes, 0, c.site), g, c.site,
                   [&](const Value& p, const Value& q) { return add(p, q, c.site); });
  return {cast(div(total, divisors(c, a, g, x.dtype()), c.site), dtype, c.site)};
}

Values decompose_avg_gradient(const BuildContext& c) {
  const auto& a = c.as<AvgPool2dGradientAttributes>();
  const CallSite site = c.site;
  const Value& dy = c.inputs[0];
  const ImageAxes axes = image_axes(a.layout);
  const Shape images =
      image_shape(axes, dy.shape()[0], {a.size[0], a.size[1]}, dy.shape()[axes.channel]);
  const PoolGeometry g(a, images);
  if (images.num_elements() == 0 || g.results.num_elements() == 0)
    return {zeros_of(c.graph, {dy.dtype(), images}, c.site)};
  if (a.layout == kChannelsFirst) {
    const Value dx =
        avg_pool2d_gradient(transpose(dy, kImageToLast, site), a.size, channels_last(a), site);
    return {transpose(dx, kImageToFirst, site)};
  }
  const Value wide = widened(dy, site);
  Value spread = div(wide, divisors(c, a, g, wide.dtype()), site);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Windows windows = along_axis(g.windows, i, spread.shape()[axes.spatial[1 - i]]);
    Value total;
    for (int64_t k = 0; k < g.windows[i].taps; ++k) {
      Pair tap{};
      tap[i] = k;
      const Value part = window_untap(spread, windows, axes, tap, site);
      total = total.valid() ? add(total, part, site) : part;
    }
    spread = total;
  }
  return {cast(without_padding(spread, g.windows, axes, site), dy.dtype(), site)};
}

// ---- gradients

Values gradient_avg(const BuildContext& c) {
  const auto& a = c.as<AvgPool2dAttributes>();
  const Pair size = spatial_dims(c.inputs[0].shape(), image_axes(a.layout));
  return {avg_pool2d_gradient(c.output_gradients[0], {size[0], size[1]}, a, c.site)};
}
Values gradient_avg_gradient(const BuildContext& c) {
  return {avg_pool2d(c.output_gradients[0], c.as<AvgPool2dGradientAttributes>(), c.site)};
}

// ---- samples

Sample sample_avg(SampleSource& source) {
  if (!is_float(source.dtype())) return {};
  auto drawn = draw_pool<AvgPool2dAttributes>(source);
  drawn.a.count_padding = source.coin();
  return {
      .inputs = {source.values(drawn.images)},
      .build = [a = drawn.a](Graph&, const Values& v) -> Values { return {avg_pool2d(v[0], a)}; }};
}
Sample sample_avg_gradient(SampleSource& source) {
  if (!is_float(source.dtype())) return {};
  auto drawn = draw_pool<AvgPool2dAttributes>(source);
  drawn.a.count_padding = source.coin();
  const Pair size = spatial_dims(drawn.images, image_axes(drawn.a.layout));
  return {.inputs = {source.values(drawn.results)},
          .build = [a = drawn.a, size](Graph&, const Values& v) -> Values {
            return {avg_pool2d_gradient(v[0], {size[0], size[1]}, a)};
          }};
}

}  // namespace

void register_pool_avg(OpTable& table) {
  OpDef op;
  op.name = "avg_pool2d";
  op.summary = "the mean of each window of images";
  op.input_names = {"x"};
  op.attributes = &attributes_schema<AvgPool2dAttributes>();
  op.infer = [](const InferContext& c) { return infer_pool<AvgPool2dAttributes>(c, kFloats); };
  op.reference = reference_avg;
  op.gradient = gradient_avg;
  op.decompose = decompose_avg;
  op.bound = {.ulps = 2, .k = 8};
  op.sample = sample_avg;
  table.add(op);

  op.name = "avg_pool2d_gradient";
  op.summary = "the gradient of avg_pool2d: an equal part to each element of a window";
  op.input_names = {"dy"};
  op.attributes = &attributes_schema<AvgPool2dGradientAttributes>();
  op.infer = infer_avg_gradient;
  op.reference = reference_avg_gradient;
  op.gradient = gradient_avg_gradient;
  op.decompose = decompose_avg_gradient;
  op.bound = {.ulps = 2, .k = 8};
  op.sample = sample_avg_gradient;
  table.add(std::move(op));
}

Value avg_pool2d(Operand x, AvgPool2dAttributes options, CallSite site) {
  return emit("avg_pool2d", {x}, Attributes::of(completed(std::move(options))), site);
}

Value avg_pool2d_gradient(Operand dy, const std::vector<int64_t>& size, AvgPool2dAttributes options,
                          CallSite site) {
  AvgPool2dGradientAttributes a;
  static_cast<AvgPool2dAttributes&>(a) = completed(std::move(options));
  a.size = size;
  return emit("avg_pool2d_gradient", {dy}, Attributes::of(std::move(a)), site);
}

}  // namespace keel
