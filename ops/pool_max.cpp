// max_pool2d and its gradient.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/pool_rules.h"
#include "keel/ops/scalar_rules.h"
#include "keel/ops/sort.h"

namespace keel {
namespace {

// ---- inference

std::vector<Type> infer_max_gradient(const InferContext& c) {
  c.require_same_dtype();
  require_dtypes(c, 0, kFloats);
  c.require_rank(0, 4, 4);
  c.require_rank(1, 4, 4);
  const Shape& x = c.inputs[0].shape;
  require_results_shape(c, 1, infer_pooled(c, c.as<MaxPool2dAttributes>(), x));
  return {c.inputs[0]};
}

// ---- references

// Calls body.operator()<T>() for number dtypes.
template <class F>
void visit_number(DType dtype, F&& body) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) body.template operator()<T>();
  });
}

// Returns the first of the largest elements, NaN counting as the largest. 0 and -0 tie.
template <class T>
int64_t first_largest(const T* x, const std::vector<int64_t>& window) {
  int64_t best = window[0];
  for (const int64_t i : window) {
    if (ascending_order(load(x, i), load(x, best)) > 0) best = i;
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

// ---- decompositions; NCHW is transposed to NHWC, where backends have kernels, and back

// Returns the smallest number of a dtype, which padding has where the largest element counts.
double lowest(DType dtype) {
  return visit_dtype(dtype, []<class T>() -> double {
    if constexpr (is_float(dtype_of<T>)) return -std::numeric_limits<double>::infinity();
    return static_cast<double>(std::numeric_limits<T>::lowest());
  });
}

Values decompose_max(const BuildContext& c) {
  const auto& pool = c.as<MaxPool2dAttributes>();
  const PoolGeometry g(pool, c.inputs[0].shape());
  const DType dtype = c.inputs[0].dtype();
  if (g.results.num_elements() == 0) return {zeros_of(c.graph, {dtype, g.results}, c.site)};
  if (pool.layout == kChannelsFirst) {
    const Value last = transpose(c.inputs[0], kImageToLast, c.site);
    return {transpose(max_pool2d(last, channels_last(pool), c.site), kImageToFirst, c.site)};
  }
  const Value padded = padded_image(c.inputs[0], g.windows, g.axes, lowest(dtype), c.site);
  return {join_windows(padded, g, c.site,
                       [&](const Value& a, const Value& b) { return maximum(a, b, c.site); })};
}

// Returns where tap (a, b) of a window lies on the image, as a bool for each window; nothing where
// it does everywhere.
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

constexpr int64_t kMostBetweenWindows = 4;

// Returns what each tap gives back, added up where windows overlap.
Value added_taps(const BuildContext& c, const PoolGeometry& g, const Value& dy) {
  Value total;
  for_each_chosen(c, g, [&](Pair tap, const Value& chosen) {
    const Value given = select(chosen, dy, 0, c.site);
    const Value part = window_untap(given, g.windows, g.axes, tap, c.site);
    total = total.valid() ? add(total, part, c.site) : part;
  });
  return without_padding(total, g.windows, g.axes, c.site);
}

// Does the same where windows do not overlap: each element of the image gets what one tap gives.
Value interleaved_taps(const BuildContext& c, const PoolGeometry& g, const Value& dy) {
  const WindowAxis &rows = g.windows[0], &columns = g.windows[1];
  const Value none = zeros_of(c.graph, dy.type(), c.site);
  std::vector<Values> parts(static_cast<size_t>(rows.stride),
                            Values(static_cast<size_t>(columns.stride), none));
  for_each_chosen(c, g, [&](Pair tap, const Value& chosen) {
    parts[static_cast<size_t>(tap[0])][static_cast<size_t>(tap[1])] = select(chosen, dy, 0, c.site);
  });
  Pair before{}, behind{};
  for (size_t i = 0; i < 2; ++i) {
    const WindowAxis& w = g.windows[i];
    before[i] = -w.low;
    behind[i] = w.low + w.in - w.out * w.stride;
  }
  return spread_image(interleaved(parts, g.axes, c.site), g.axes, {}, before, behind, c.site);
}

Values decompose_max_gradient(const BuildContext& c) {
  const auto& pool = c.as<MaxPool2dAttributes>();
  const PoolGeometry g(pool, c.inputs[0].shape());
  const Type type = c.inputs[0].type();
  if (g.results.num_elements() == 0) return {zeros_of(c.graph, type, c.site)};
  if (pool.layout == kChannelsFirst) {
    const Value dx = max_pool2d_gradient(transpose(c.inputs[0], kImageToLast, c.site),
                                         transpose(c.inputs[1], kImageToLast, c.site),
                                         channels_last(pool), c.site);
    return {transpose(dx, kImageToFirst, c.site)};
  }
  // Windows that lie far apart would have a part for each element between them.
  const bool adjoin = std::all_of(g.windows.begin(), g.windows.end(), [](const WindowAxis& w) {
    return w.taps <= w.stride && w.stride - w.taps < kMostBetweenWindows;
  });
  const Value dy = widened(c.inputs[1], c.site);
  const Value dx = adjoin ? interleaved_taps(c, g, dy) : added_taps(c, g, dy);
  return {cast(dx, type.dtype, c.site)};
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
  if (g.results.num_elements() == 0)
    return {Value(), zeros_of(c.graph, {c.inputs[0].dtype(), g.results}, c.site)};
  const Value padded = padded_image(c.output_gradients[0], g.windows, g.axes, 0, site);
  Value result;
  for_each_chosen(c, g, [&](Pair tap, const Value& chosen) {
    const Value part = window_tap(padded, g.windows, g.axes, tap, site);
    result = result.valid() ? select(chosen, part, result, site) : select(chosen, part, 0, site);
  });
  return {Value(), result};
}

// ---- samples

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
}  // namespace

void register_pool_max(OpTable& table) {
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

Value max_pool2d(Operand x, MaxPool2dAttributes options, CallSite site) {
  return emit("max_pool2d", {x}, Attributes::of(completed(std::move(options))), site);
}

Value max_pool2d_gradient(Operand x, Operand dy, MaxPool2dAttributes options, CallSite site) {
  return emit("max_pool2d_gradient", {x, dy}, Attributes::of(completed(std::move(options))), site);
}
}  // namespace keel
