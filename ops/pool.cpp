#include "keel/ops/pool.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/reduce.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/scalar_rules.h"
#include "keel/ops/shape.h"
#include "keel/ops/window_taps.h"

namespace keel {
namespace {

// ---- windows

template <class A>
WindowSettings window_settings(const A& a) {
  static const std::vector<int64_t> kDense = {1, 1};
  return {a.stride, kDense, a.padding, a.pads};
}
template <class A>
Windows pooled_windows(const A& a, Pair in) {
  return windows_of(window_settings(a), in, {a.window[0], a.window[1]});
}

// A pooling with all dimensions known: where the elements of images and results lie.
struct PoolGeometry {
  template <class A>
  PoolGeometry(const A& a, const Shape& images)
      : axes(image_axes(a.layout)),
        windows(pooled_windows(a, spatial_dims(images, axes))),
        batch(images[0]),
        channels(images[axes.channel]),
        results(image_shape(axes, batch, {windows[0].out, windows[1].out}, channels)),
        image_strides(images.strides()),
        result_strides(results.strides()) {}

  ImageAxes axes;
  Windows windows;
  int64_t batch, channels;
  Shape results;
  Strides image_strides, result_strides;

  // Calls body(result, images) for each window of each channel: the element of the results, and
  // those of the images that lie in the window, in row-major order, padding left out.
  template <class Body>
  void for_each_window(Body&& body) const {
    std::vector<int64_t> inside;
    for_each_strided(results, std::array<Strides, 2>{start_strides(), result_strides},
                     [&](const std::array<int64_t, 2>& at) { body(at[1], inside_of(at, inside)); });
  }

 private:
  // Moves along the images as windows do, in front of the padding.
  Strides start_strides() const {
    Strides strides = image_strides;
    for (size_t i = 0; i < 2; ++i) strides[axes.spatial[i]] *= windows[i].stride;
    return strides;
  }
  const std::vector<int64_t>& inside_of(const std::array<int64_t, 2>& at,
                                        std::vector<int64_t>& inside) const {
    inside.clear();
    Pair window{};
    for (size_t i = 0; i < 2; ++i) {
      const size_t axis = axes.spatial[i];
      window[i] = at[1] / result_strides[axis] % windows[i].out;
    }
    for (int64_t a = 0; a < windows[0].taps; ++a) {
      if (!windows[0].inside(windows[0].position(window[0], a))) continue;
      for (int64_t b = 0; b < windows[1].taps; ++b) {
        if (!windows[1].inside(windows[1].position(window[1], b))) continue;
        inside.push_back(at[0] + (a - windows[0].low) * image_strides[axes.spatial[0]] +
                         (b - windows[1].low) * image_strides[axes.spatial[1]]);
      }
    }
    return inside;
  }
};

// ---- inference

// Checks the attributes and that the windows fit images of shape `images`; the results' shape.
template <class A>
Shape infer_pooled(const InferContext& c, const A& a, const Shape& images) {
  require_layout(c, a.layout);
  require_list(c, "window", a.window, 2, 1);
  const WindowSettings settings = window_settings(a);
  require_window_settings(c, settings);
  for (size_t i = 0; i < a.pads.size(); ++i) {
    if (a.pads[i] < a.window[i / 2]) continue;
    c.fail("pads", "pads smaller than the window, so that each window holds an element of x",
           std::to_string(a.pads[i]) + " beside a window of " + std::to_string(a.window[i / 2]));
  }
  const ImageAxes axes = image_axes(a.layout);
  const Windows windows = pooled_windows(a, spatial_dims(images, axes));
  require_windows_fit(c, settings, windows, "x", images);
  for (const WindowAxis& w : windows) {
    if (w.in == 0 && w.out > 0) c.fail("x", "an image with elements", to_string(images));
  }
  return image_shape(axes, images[0], {windows[0].out, windows[1].out}, images[axes.channel]);
}

template <class A>
std::vector<Type> infer_pool(const InferContext& c, unsigned dtypes) {
  require_dtypes(c, 0, dtypes);
  c.require_rank(0, 4, 4);
  return {{c.inputs[0].dtype, infer_pooled(c, c.as<A>(), c.inputs[0].shape)}};
}

// Throws Error where dy cannot have the shape of the results.
void require_results_shape(const InferContext& c, size_t input, const Shape& expected) {
  const Shape& dy = c.inputs[input].shape;
  for (size_t i = 0; i < 4; ++i) {
    if (expected[i] < 0 || dy[i] < 0 || expected[i] == dy[i]) continue;
    c.fail("dy", "shape " + to_string(expected) + ", which pooling makes of the images",
           to_string(dy));
  }
}

std::vector<Type> infer_max_gradient(const InferContext& c) {
  c.require_same_dtype();
  require_dtypes(c, 0, kFloats);
  c.require_rank(0, 4, 4);
  c.require_rank(1, 4, 4);
  const Shape& x = c.inputs[0].shape;
  require_results_shape(c, 1, infer_pooled(c, c.as<MaxPool2dAttributes>(), x));
  return {c.inputs[0]};
}

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

// Calls body.operator()<T>() for number dtypes.
template <class F>
void visit_number(DType dtype, F&& body) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) body.template operator()<T>();
  });
}

// The first of the largest elements, NaN counting as the largest. 0 and -0 tie.
template <class T>
int64_t first_largest(const T* x, const std::vector<int64_t>& window) {
  int64_t best = window[0];
  for (const int64_t i : window) {
    const auto candidate = load(x, i), held = load(x, best);
    if (held == held && (candidate > held || candidate != candidate)) best = i;
  }
  return best;
}

void reference_max(const ReferenceContext& c) {
  const PoolGeometry g(c.as<MaxPool2dAttributes>(), c.inputs[0].shape());
  visit_number(c.inputs[0].dtype(), [&]<class T>() {
    const T* x = c.inputs[0].data<T>().data();
    T* y = c.outputs[0].data<T>().data();
    g.for_each_window([&](int64_t to, const std::vector<int64_t>& window) {
      auto largest = load(x, window[0]);
      for (const int64_t i : window) largest = scalar::maximum(largest, load(x, i));
      store(y, to, largest);
    });
  });
}

void reference_max_gradient(const ReferenceContext& c) {
  const PoolGeometry g(c.as<MaxPool2dAttributes>(), c.inputs[0].shape());
  visit_number(c.inputs[0].dtype(), [&]<class T>() {
    const T* x = c.inputs[0].data<T>().data();
    const T* dy = c.inputs[1].data<T>().data();
    std::vector<Computed<T>> sums(static_cast<size_t>(c.outputs[0].num_elements()), 0);
    g.for_each_window([&](int64_t from, const std::vector<int64_t>& window) {
      sums[static_cast<size_t>(first_largest(x, window))] += load(dy, from);
    });
    T* dx = c.outputs[0].data<T>().data();
    for (size_t i = 0; i < sums.size(); ++i) store(dx, static_cast<int64_t>(i), sums[i]);
  });
}

// What a window's sum is divided by.
double divisor(const AvgPool2dAttributes& a, const std::vector<int64_t>& window) {
  return a.count_padding ? static_cast<double>(a.window[0] * a.window[1])
                         : static_cast<double>(window.size());
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

// ---- graphs of the windows' taps

// Sums of 16-bit floats are kept in f32.
Value widened(const Value& value, CallSite site) {
  return size_of(value.dtype()) == 2 ? cast(value, f32, site) : value;
}

// The smallest number of a dtype, which padding has where the largest element counts.
double lowest(DType dtype) {
  return visit_dtype(dtype, []<class T>() -> double {
    if constexpr (is_float(dtype_of<T>)) return -std::numeric_limits<double>::infinity();
    return static_cast<double>(std::numeric_limits<T>::lowest());
  });
}

Value nothing(const BuildContext& c, const Type& type) {
  const Value zero = c.graph.constant(Tensor(type.dtype, Shape{}), c.site);
  return broadcast_to(zero, type.shape, c.site);
}

// One axis after the other, so that a window costs height + width slices, not height * width.
template <class Join>
Value join_windows(const Value& padded, const PoolGeometry& g, CallSite site, Join join) {
  Value joined = padded;
  for (const size_t i : {size_t{1}, size_t{0}}) {
    const int64_t others = joined.shape()[g.axes.spatial[1 - i]];
    const Windows windows = along_axis(g.windows, i, others);
    Value result;
    for (int64_t k = 0; k < g.windows[i].taps; ++k) {
      Pair tap{};
      tap[i] = k;
      const Value part = window_tap(joined, windows, g.axes, tap, site);
      result = result.valid() ? join(result, part) : part;
    }
    joined = result;
  }
  return joined;
}

Values decompose_max(const BuildContext& c) {
  const PoolGeometry g(c.as<MaxPool2dAttributes>(), c.inputs[0].shape());
  const DType dtype = c.inputs[0].dtype();
  if (g.results.num_elements() == 0) return {nothing(c, {dtype, g.results})};
  const Value padded = padded_image(c.inputs[0], g.windows, g.axes, lowest(dtype), c.site);
  return {join_windows(padded, g, c.site,
                       [&](const Value& a, const Value& b) { return maximum(a, b, c.site); })};
}

// Where tap (a, b) of a window lies on the image, as a bool for each window; nothing where it does
// everywhere.
std::optional<Tensor> inside_windows(const PoolGeometry& g, Pair tap) {
  Tensor inside(boolean, image_shape(g.axes, 1, {g.windows[0].out, g.windows[1].out}, 1));
  bool everywhere = true;
  int64_t at = 0;
  for (int64_t i = 0; i < g.windows[0].out; ++i) {
    for (int64_t j = 0; j < g.windows[1].out; ++j) {
      const bool is_inside = g.windows[0].inside(g.windows[0].position(i, tap[0])) &&
                             g.windows[1].inside(g.windows[1].position(j, tap[1]));
      inside.set(at++, is_inside ? 1 : 0);
      everywhere = everywhere && is_inside;
    }
  }
  return everywhere ? std::nullopt : std::optional(inside);
}

// Calls body(tap, chosen) for each tap, in order; `chosen` says for each window and channel whether
// its first largest element lies there.
template <class Body>
void for_each_chosen(const BuildContext& c, const PoolGeometry& g, Body&& body) {
  const CallSite site = c.site;
  const Value& x = c.inputs[0];
  const Value y = max_pool2d(x, c.as<MaxPool2dAttributes>(), site);
  const Value padded = padded_image(x, g.windows, g.axes, lowest(x.dtype()), site);
  Value taken;
  for (int64_t a = 0; a < g.windows[0].taps; ++a) {
    for (int64_t b = 0; b < g.windows[1].taps; ++b) {
      const Value tap = window_tap(padded, g.windows, g.axes, {a, b}, site);
      // A window whose largest element is NaN equals none of its own.
      Value chosen = logical_or(equal(tap, y, site), not_equal(tap, tap, site), site);
      // Padding would win where all of a window is -infinity.
      if (const auto inside = inside_windows(g, {a, b}))
        chosen = logical_and(chosen, c.graph.constant(*inside, site), site);
      const Value found = chosen;
      if (taken.valid()) chosen = logical_and(chosen, logical_not(taken, site), site);
      taken = taken.valid() ? logical_or(taken, found, site) : found;
      body(Pair{a, b}, chosen);
    }
  }
}

Values decompose_max_gradient(const BuildContext& c) {
  const CallSite site = c.site;
  const PoolGeometry g(c.as<MaxPool2dAttributes>(), c.inputs[0].shape());
  const Type type = c.inputs[0].type();
  if (g.results.num_elements() == 0) return {nothing(c, type)};
  const Value dy = widened(c.inputs[1], site);
  Value total;
  for_each_chosen(c, g, [&](Pair tap, const Value& chosen) {
    const Value part = window_untap(select(chosen, dy, 0, site), g.windows, g.axes, tap, site);
    total = total.valid() ? add(total, part, site) : part;
  });
  return {cast(without_padding(total, g.windows, g.axes, site), type.dtype, site)};
}

// The divisor of each window as a Value to divide by; one number where all are equal.
Value divisors(const BuildContext& c, const AvgPool2dAttributes& a, const PoolGeometry& g,
               DType dtype) {
  const double whole = static_cast<double>(a.window[0] * a.window[1]);
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
  if (g.results.num_elements() == 0) return {nothing(c, {dtype, g.results})};
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
    return {nothing(c, {dy.dtype(), images})};
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

Values gradient_max(const BuildContext& c) {
  return {
      max_pool2d_gradient(c.inputs[0], c.output_gradients[0], c.as<MaxPool2dAttributes>(), c.site)};
}

// It is linear in dy: each element of dy gets the gradient at the element that it went to. Which
// one that is does not change with x, but at ties.
Values gradient_max_gradient(const BuildContext& c) {
  const CallSite site = c.site;
  const PoolGeometry g(c.as<MaxPool2dAttributes>(), c.inputs[0].shape());
  if (g.results.num_elements() == 0) return {Value(), nothing(c, {c.inputs[0].dtype(), g.results})};
  const Value padded = padded_image(c.output_gradients[0], g.windows, g.axes, 0, site);
  Value result;
  for_each_chosen(c, g, [&](Pair tap, const Value& chosen) {
    const Value part = window_tap(padded, g.windows, g.axes, tap, site);
    result = result.valid() ? select(chosen, part, result, site) : select(chosen, part, 0, site);
  });
  return {Value(), result};
}

Values gradient_avg(const BuildContext& c) {
  const auto& a = c.as<AvgPool2dAttributes>();
  const Pair size = spatial_dims(c.inputs[0].shape(), image_axes(a.layout));
  return {avg_pool2d_gradient(c.output_gradients[0], {size[0], size[1]}, a, c.site)};
}
Values gradient_avg_gradient(const BuildContext& c) {
  return {avg_pool2d(c.output_gradients[0], c.as<AvgPool2dGradientAttributes>(), c.site)};
}

// ---- samples

template <class A>
struct DrawnPool {
  A a;
  Shape images, results;
};

template <class A>
DrawnPool<A> draw_pool(SampleSource& source) {
  const DrawnWindows drawn = draw_windows(source, 1, true);
  DrawnPool<A> pool;
  pool.a.window = {drawn.taps[0], drawn.taps[1]};
  pool.a.stride = drawn.stride;
  pool.a.padding = drawn.padding;
  pool.a.pads = drawn.pads;
  pool.a.layout = source.coin() ? kChannelsLast : kChannelsFirst;
  const int64_t batch = source.integer(0, 7) == 0 ? 0 : source.integer(1, 3);
  pool.images = image_shape(image_axes(pool.a.layout), batch, drawn.in, source.integer(1, 3));
  pool.results = PoolGeometry(pool.a, pool.images).results;
  return pool;
}

Sample sample_max(SampleSource& source) {
  if (!is_number(source.dtype())) return {};
  const auto drawn = draw_pool<MaxPool2dAttributes>(source);
  return {
      .inputs = {source.separated_values(drawn.images)},
      .build = [a = drawn.a](Graph&, const Values& v) -> Values { return {max_pool2d(v[0], a)}; }};
}
Sample sample_max_gradient(SampleSource& source) {
  if (!is_float(source.dtype())) return {};
  const auto drawn = draw_pool<MaxPool2dAttributes>(source);
  Tensor x = source.separated_values(drawn.images);
  // Where x is not differentiated, ties show which of several elements gets the gradient.
  if (source.dtype() != f64 && source.coin()) {
    for (int64_t i = 0; i < x.num_elements(); ++i)
      x.set(i, static_cast<double>(source.integer(0, 2)));
  }
  return {.inputs = {x, source.values(drawn.results)},
          .build = [a = drawn.a](Graph&, const Values& v) -> Values {
            return {max_pool2d_gradient(v[0], v[1], a)};
          }};
}
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

// ---- builders

// One number stands for both axes, and the stride is the window's size where it is left out.
template <class A>
A completed(A a) {
  a.window = for_both_axes(a.window);
  a.stride = a.stride.empty() ? a.window : for_both_axes(a.stride);
  return a;
}

Value global_pool(const char* op, const Operand& x, const std::string& layout, bool keepdims,
                  CallSite site,
                  Value (*reduce)(Operand, const std::vector<int64_t>&, bool, CallSite)) {
  const CallSite line = site.known() ? site : x.site();
  const Value images = require_value(x, op, "x", line);
  const auto fail = [&](const char* argument, const char* expected, const std::string& got) {
    throw Error({.op = op, .argument = argument, .expected = expected, .got = got, .site = line});
  };
  if (layout != kChannelsLast && layout != kChannelsFirst)
    fail("layout", "NHWC or NCHW", '"' + layout + '"');
  if (images.shape().rank() != 4) fail("x", "rank 4", to_string(images.type()));
  const ImageAxes axes = image_axes(layout);
  return reduce(images,
                {static_cast<int64_t>(axes.spatial[0]), static_cast<int64_t>(axes.spatial[1])},
                keepdims, line);
}

void register_max_pool(OpTable& table) {
  OpDef op;
  op.name = "max_pool2d";
  op.summary = "the largest element of each window of images";
  op.input_names = {"x"};
  op.attributes = &attributes_schema<MaxPool2dAttributes>();
  op.infer = [](const InferContext& c) { return infer_pool<MaxPool2dAttributes>(c, kNumbers); };
  op.reference = reference_max;
  op.gradient = gradient_max;
  op.decompose = decompose_max;
  op.sample = sample_max;
  table.add(op);

  op.name = "max_pool2d_gradient";
  op.summary = "the gradient of max_pool2d: to the first largest element of each window";
  op.input_names = {"x", "dy"};
  op.infer = infer_max_gradient;
  op.reference = reference_max_gradient;
  op.gradient = gradient_max_gradient;
  op.decompose = decompose_max_gradient;
  op.bound = {.ulps = 1, .k = 32};
  op.sample = sample_max_gradient;
  table.add(std::move(op));
}

void register_avg_pool(OpTable& table) {
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

}  // namespace

void register_pool(OpTable& table) {
  register_max_pool(table);
  register_avg_pool(table);
}

Value max_pool2d(Operand x, MaxPool2dAttributes options, CallSite site) {
  return emit("max_pool2d", {x}, Attributes::of(completed(std::move(options))), site);
}
Value max_pool2d_gradient(Operand x, Operand dy, MaxPool2dAttributes options, CallSite site) {
  return emit("max_pool2d_gradient", {x, dy}, Attributes::of(completed(std::move(options))), site);
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

Value global_max_pool2d(Operand x, const std::string& layout, bool keepdims, CallSite site) {
  return global_pool("global_max_pool2d", x, layout, keepdims, site, max);
}
Value global_avg_pool2d(Operand x, const std::string& layout, bool keepdims, CallSite site) {
  return global_pool("global_avg_pool2d", x, layout, keepdims, site, mean);
}

}  // namespace keel
