#include "keel/ops/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/elementwise_rules.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/scalar_rules.h"
#include "keel/ops/scan.h"
#include "keel/ops/shape.h"
#include "keel/ops/sort.h"
#include "keel/ops/sums/part_sums.h"
#include "keel/ops/wide_floats.h"

namespace keel {

std::vector<bool> reduced_axes(const std::vector<int64_t>& axes, size_t rank) {
  std::vector<bool> reduced(rank, axes.empty());
  for (const int64_t axis : axes) reduced.at(static_cast<size_t>(axis)) = true;
  return reduced;
}

Shape reduced_shape(const Shape& shape, const std::vector<bool>& reduced, bool keepdims) {
  Shape result;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (!reduced[i])
      result.push_back(shape[i]);
    else if (keepdims)
      result.push_back(1);
  }
  return result;
}

namespace {

// ---- inference

void require_elements(const InferContext& ctx, const std::vector<bool>& reduced) {
  const Shape& shape = ctx.inputs[0].shape;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (reduced[i] && shape[i] == 0) {
      ctx.fail("x", "at least one element along axis " + std::to_string(i),
               to_string(ctx.inputs[0]), "an empty axis has no " + ctx.op.name);
    }
  }
}

std::function<std::vector<Type>(const InferContext&)> reduce_infer(unsigned allowed,
                                                                   bool needs_elements,
                                                                   bool has_parts = false) {
  return [allowed, needs_elements, has_parts](const InferContext& ctx) -> std::vector<Type> {
    require_dtypes(ctx, 0, allowed);
    const auto& a = ctx.as<ReduceAttributes>();
    const Shape& shape = ctx.inputs[0].shape;
    std::vector<bool> reduced = require_axes(ctx, a.axes, shape.rank());
    if (a.axes.empty()) reduced = reduced_axes(a.axes, shape.rank());
    if (needs_elements) require_elements(ctx, reduced);
    require_parts(ctx, a.parts, ctx.inputs[0].dtype);
    const bool sums_first = has_parts && reduced.size() > 0 && reduced[0];
    if (a.parts > 1 && !sums_first)
      ctx.fail("parts", has_parts ? "1, or a sum along the first axis" : "1: sums alone have parts",
               std::to_string(a.parts));
    return {{ctx.inputs[0].dtype, reduced_shape(shape, reduced, a.keepdims)}};
  };
}

std::vector<Type> infer_argmax(const InferContext& ctx) {
  require_dtypes(ctx, 0, kNumbers);
  const auto& a = ctx.as<ArgmaxAttributes>();
  const Shape& shape = ctx.inputs[0].shape;
  std::vector<bool> reduced(shape.rank());
  reduced[require_axis(ctx, "axis", a.axis, shape.rank())] = true;
  require_elements(ctx, reduced);
  return {{i64, reduced_shape(shape, reduced, a.keepdims)}};
}

// ---- references

// Visits where each element of x goes: body(element, result).
template <class Body>
void for_each_reduced(const Shape& shape, const std::vector<int64_t>& axes, Body&& body) {
  const Shape kept = reduced_shape(shape, reduced_axes(axes, shape.rank()), true);
  for_each_broadcast<1>(shape, {kept}, [&](int64_t i, const auto& to) { body(i, to[0]); });
}

// out = finish(step(... step(start, x0) ..., xn), n); start depends on the type that is computed
// in.
template <unsigned kAllowed, class Start, class Step, class Finish>
std::function<void(const ReferenceContext&)> reduce_reference(Start start, Step step,
                                                              Finish finish) {
  return [start, step, finish](const ReferenceContext& ctx) {
    visit_dtype(ctx.inputs[0].dtype(), [&]<class T>() {
      if constexpr (contains(kAllowed, dtype_of<T>)) {
        const T* x = ctx.inputs[0].data<T>().data();
        T* out = ctx.outputs[0].data<T>().data();
        const int64_t results = ctx.outputs[0].num_elements();
        std::vector<Computed<T>> totals(static_cast<size_t>(results), start(Computed<T>{}));
        for_each_reduced(ctx.inputs[0].shape(), ctx.as<ReduceAttributes>().axes,
                         [&](int64_t i, int64_t to) {
                           auto& total = totals[static_cast<size_t>(to)];
                           total = step(total, load(x, i));
                         });
        const int64_t count = results == 0 ? 0 : ctx.inputs[0].num_elements() / results;
        for (int64_t i = 0; i < results; ++i)
          store(out, i, finish(totals[static_cast<size_t>(i)], count));
      }
    });
  };
}

template <class T>
constexpr T lowest_of(T) {
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                              : std::numeric_limits<T>::min();
}
template <class T>
constexpr T highest_of(T) {
  return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                              : std::numeric_limits<T>::max();
}

constexpr auto kAsItIs = [](auto total, int64_t) { return total; };

void reference_logsumexp(const ReferenceContext& ctx) {
  visit_dtype(ctx.inputs[0].dtype(), [&]<class T>() {
    if constexpr (is_float(dtype_of<T>)) {
      const T* x = ctx.inputs[0].data<T>().data();
      const auto& axes = ctx.as<ReduceAttributes>().axes;
      const auto results = static_cast<size_t>(ctx.outputs[0].num_elements());
      std::vector<double> largest(results, -std::numeric_limits<double>::infinity());
      std::vector<double> total(results, 0);
      for_each_reduced(ctx.inputs[0].shape(), axes, [&](int64_t i, int64_t to) {
        auto& m = largest[static_cast<size_t>(to)];
        m = scalar::maximum(m, load(x, i));
      });
      // An infinite largest element decides alone; subtracting it would give NaN.
      for (double& m : largest) m = std::isinf(m) ? 0 : m;
      for_each_reduced(ctx.inputs[0].shape(), axes, [&](int64_t i, int64_t to) {
        const auto r = static_cast<size_t>(to);
        total[r] += std::exp(load(x, i) - largest[r]);
      });
      T* out = ctx.outputs[0].data<T>().data();
      for (size_t r = 0; r < results; ++r)
        store(out, static_cast<int64_t>(r), largest[r] + std::log(total[r]));
    }
  });
}

void reference_argmax(const ReferenceContext& ctx) {
  const Shape& shape = ctx.inputs[0].shape();
  const auto axis = static_cast<size_t>(ctx.as<ArgmaxAttributes>().axis);
  const int64_t stride = shape.strides()[axis];
  const int64_t count = shape[axis];
  visit_dtype(ctx.inputs[0].dtype(), [&]<class T>() {
    const T* x = ctx.inputs[0].data<T>().data();
    auto* out = ctx.outputs[0].data<int64_t>().data();
    for (int64_t r = 0; r < ctx.outputs[0].num_elements(); ++r) {
      const int64_t first = r / stride * stride * count + r % stride;
      int64_t best = 0;
      for (int64_t i = 1; i < count; ++i) {
        if (ascending_order(load(x, first + i * stride), load(x, first + best * stride)) > 0)
          best = i;
      }
      out[r] = best;
    }
  });
}

// ---- gradients and decompositions

// Returns a reduction's result, or its gradient, with the reduced axes back as dimensions of 1, so
// that it broadcasts with x.
Value kept(const BuildContext& ctx, const Value& result) {
  const Shape& shape = ctx.inputs[0].shape();
  const Shape with_ones =
      reduced_shape(shape, reduced_axes(ctx.as<ReduceAttributes>().axes, shape.rank()), true);
  return result.shape() == with_ones ? result : reshape(result, with_ones, ctx.site);
}

// Returns how many elements make one result.
double reduced_count(const BuildContext& ctx) {
  const Shape& shape = ctx.inputs[0].shape();
  const std::vector<bool> reduced = reduced_axes(ctx.as<ReduceAttributes>().axes, shape.rank());
  double count = 1;
  for (size_t i = 0; i < shape.rank(); ++i)
    count *= reduced[i] ? static_cast<double>(shape[i]) : 1.0;
  return count;
}

Values sum_gradient(const BuildContext& ctx) {
  return {broadcast_to(kept(ctx, ctx.output_gradients[0]), ctx.inputs[0].shape(), ctx.site)};
}

Values mean_gradient(const BuildContext& ctx) {
  const Value share = div(widened(ctx.output_gradients[0], ctx.site), reduced_count(ctx), ctx.site);
  return {broadcast_to(kept(ctx, narrowed(ctx, share)), ctx.inputs[0].shape(), ctx.site)};
}

Values decompose_mean(const BuildContext& ctx) {
  const auto& a = ctx.as<ReduceAttributes>();
  const Value total = sum(widened(ctx.inputs[0], ctx.site), a.axes, a.keepdims, ctx.site);
  return {narrowed(ctx, div(total, reduced_count(ctx), ctx.site))};
}

Values extremum_gradient(const BuildContext& ctx) {
  const CallSite site = ctx.site;
  const Value wins = equal(ctx.inputs[0], kept(ctx, ctx.outputs[0]), site);
  const Value g = widened(kept(ctx, ctx.output_gradients[0]), ctx.site);
  const Value winners =
      sum(cast(wins, g.dtype(), site), ctx.as<ReduceAttributes>().axes, true, site);
  // Where NaN decides nobody wins, and a share of nothing would make gradients of this one NaN.
  const Value share = div(g, maximum(winners, 1, site), site);
  return {select(wins, narrowed(ctx, share), 0, site)};
}

// Returns for each element the product of all others along the axes: of those before and behind it
// along the first one, and of the other lines.
Value product_of_others(const Value& x, std::span<const int64_t> axes, CallSite site) {
  const int64_t axis = axes.front();
  const Value before = cumprod(x, axis, {.exclusive = true}, site);
  const Value behind = cumprod(x, axis, {.exclusive = true, .reverse = true}, site);
  const Value others = mul(before, behind, site);
  if (axes.size() == 1) return others;
  return mul(others, product_of_others(prod(x, {axis}, true, site), axes.subspan(1), site), site);
}

Values prod_gradient(const BuildContext& ctx) {
  const CallSite site = ctx.site;
  const Shape& shape = ctx.inputs[0].shape();
  const std::vector<bool> reduced = reduced_axes(ctx.as<ReduceAttributes>().axes, shape.rank());
  std::vector<int64_t> axes;
  for (size_t i = 0; i < shape.rank(); ++i)
    if (reduced[i]) axes.push_back(static_cast<int64_t>(i));
  if (axes.empty()) return {ctx.output_gradients[0]};
  const Value x = widened(ctx.inputs[0], ctx.site);
  // A quotient is as good as the whole product, which may have left the range or its digits.
  const Value whole = prod(x, axes, true, site), size = abs(whole, site);
  const double least = x.dtype() == f64 ? 1e-290 : 1e-30, most = x.dtype() == f64 ? 1e300 : 1e38;
  const Value divides = logical_and(greater(size, least, site), less(size, most, site), site);
  const Value quotient = div(select(divides, whole, 1, site), select(divides, x, 1, site), site);
  // Beside a 0, what else is multiplied may be infinite.
  const Value zeros = cast(equal(x, 0, site), x.dtype(), site);
  const Value others_zero = greater(sub(sum(zeros, axes, true, site), zeros, site), 0, site);
  const Value product = select(others_zero, 0, product_of_others(x, axes, site), site);
  const Value others = select(divides, quotient, product, site);
  return {narrowed(ctx, mul(widened(kept(ctx, ctx.output_gradients[0]), ctx.site), others, site))};
}

// exp(x) of a logsumexp, shifted so that the largest is 1.
struct ShiftedExponentials {
  explicit ShiftedExponentials(const BuildContext& ctx) {
    const CallSite site = ctx.site;
    const auto& axes = ctx.as<ReduceAttributes>().axes;
    const Value x = widened(ctx.inputs[0], ctx.site);
    const Value largest = max(x, axes, true, site);
    // False for infinities, as in the reference, and for NaN, which x itself then carries on.
    const Value finite = equal(sub(largest, largest, site), 0, site);
    shift = select(finite, largest, 0, site);
    each = exp(sub(x, shift, site), site);
    total = sum(each, axes, true, site);
  }
  Value shift, each, total;  // total: the sum of each
};

// Each one's share of the sum, not exp(x - result): what the result was rounded by would multiply
// the gradient.
Values logsumexp_gradient(const BuildContext& ctx) {
  const CallSite site = ctx.site;
  const ShiftedExponentials e(ctx);
  const Value dy = widened(kept(ctx, ctx.output_gradients[0]), ctx.site);
  return {narrowed(ctx, mul(dy, div(e.each, e.total, site), site))};
}

Values decompose_logsumexp(const BuildContext& ctx) {
  const CallSite site = ctx.site;
  const auto& a = ctx.as<ReduceAttributes>();
  const ShiftedExponentials e(ctx);
  const Value result = narrowed(ctx, add(log(e.total, site), e.shift, site));
  if (a.keepdims) return {result};
  const Shape& shape = ctx.inputs[0].shape();
  return {reshape(result, reduced_shape(shape, reduced_axes(a.axes, shape.rank()), false), site)};
}

// ---- samples

std::vector<int64_t> random_axes(SampleSource& source, size_t rank) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < rank; ++i) {
    if (source.coin()) axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

std::function<Sample(SampleSource&)> reduce_sample(const std::string& name, unsigned allowed,
                                                   bool needs_elements, const DrawFunction& draw) {
  return [name, allowed, needs_elements, draw](SampleSource& source) -> Sample {
    if (!contains(allowed, source.dtype())) return {};
    const Shape shape = needs_elements ? source.nonempty_shape(0, 4) : source.shape(0, 4);
    const Attributes attributes =
        Attributes::of(ReduceAttributes{random_axes(source, shape.rank()), source.coin()});
    return {.inputs = {draw(source, shape)},
            .build = [name, attributes](Graph&, const Values& v) -> Values {
              return {emit(name, {v[0]}, attributes, v[0].node().site())};
            }};
  };
}

Tensor draw_spread(SampleSource& source, const Shape& shape) { return source.values(shape); }
// Near 1 in magnitude, so that products of some hundreds neither overflow nor vanish.
Tensor draw_factors_near_one(SampleSource& source, const Shape& shape) {
  if (!is_float(source.dtype())) return source.values(shape, -3, 3);
  Tensor t = source.values(shape, 0.75, 1.25);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (source.coin()) t.set(i, -t.at(i));
  }
  return t;
}

Sample sample_argmax(SampleSource& source) {
  if (!is_number(source.dtype())) return {};
  const Shape shape = source.nonempty_shape(1, 4);
  const int64_t axis = source.integer(0, static_cast<int64_t>(shape.rank()) - 1);
  const Attributes attributes = Attributes::of(ArgmaxAttributes{axis, source.coin()});
  Tensor x = source.values(shape, 0, 4);
  if (source.coin()) {
    for (int64_t i = 0; i < x.num_elements(); ++i) x.set(i, std::floor(x.at(i)));  // ties
  }
  return {.inputs = {std::move(x)}, .build = [attributes](Graph&, const Values& v) -> Values {
            return {emit("argmax", {v[0]}, attributes, v[0].node().site())};
          }};
}

OpDef make_reduction(const std::string& name, const std::string& summary, unsigned allowed,
                     bool needs_elements, const DrawFunction& draw) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.input_names = {"x"};
  op.attributes = &attributes_schema<ReduceAttributes>();
  op.infer = reduce_infer(allowed, needs_elements);
  op.traits = kReduction;
  op.sample = reduce_sample(name, allowed, needs_elements, draw);
  return op;
}

void register_sums(OpTable& table) {
  const auto zero = [](auto type) { return decltype(type){0}; };
  const auto plus = [](auto a, auto b) { return scalar::add(a, b); };
  OpDef op = make_reduction("sum", "the sum along axes", kNumbers, false, draw_spread);
  op.infer = reduce_infer(kNumbers, false, true);
  op.reference = [of_one =
                      reduce_reference<kNumbers>(zero, plus, kAsItIs)](const ReferenceContext& c) {
    reference_of_parts(c, c.as<ReduceAttributes>().parts, of_one);
  };
  op.gradient = sum_gradient;
  op.bound = {.ulps = 1, .k = 4};
  table.add(std::move(op));

  op = make_reduction("mean", "the mean along axes", kFloats, false, draw_spread);
  op.reference = reduce_reference<kFloats>(
      zero, plus, [](double total, int64_t count) { return total / static_cast<double>(count); });
  op.gradient = mean_gradient;
  op.decompose = decompose_mean;
  op.bound = {.ulps = 2, .k = 4};
  table.add(std::move(op));

  op = make_reduction("prod", "the product along axes", kNumbers, false, draw_factors_near_one);
  op.reference =
      reduce_reference<kNumbers>([](auto type) { return decltype(type){1}; },
                                 [](auto a, auto b) { return scalar::mul(a, b); }, kAsItIs);
  op.gradient = prod_gradient;
  op.bound = {.ulps = 4, .k = 16};
  table.add(std::move(op));

  op = make_reduction("logsumexp", "log(sum(exp(x))) along axes, without overflow", kFloats, true,
                      draw_spread);
  op.reference = reference_logsumexp;
  op.gradient = logsumexp_gradient;
  op.decompose = decompose_logsumexp;
  op.bound = {.ulps = 4, .k = 8};
  table.add(std::move(op));
}

void register_extremes(OpTable& table) {
  OpDef op = make_reduction("max", "the largest element along axes; NaN where there is one",
                            kNumbers, true, draw_separated());
  op.reference =
      reduce_reference<kNumbers>([](auto type) { return lowest_of(type); },
                                 [](auto a, auto b) { return scalar::maximum(a, b); }, kAsItIs);
  op.gradient = extremum_gradient;
  table.add(std::move(op));

  op = make_reduction("min", "the smallest element along axes; NaN where there is one", kNumbers,
                      true, draw_separated());
  op.reference =
      reduce_reference<kNumbers>([](auto type) { return highest_of(type); },
                                 [](auto a, auto b) { return scalar::minimum(a, b); }, kAsItIs);
  op.gradient = extremum_gradient;
  table.add(std::move(op));

  table.add({.name = "argmax",
             .summary = "the first index of the largest element along an axis",
             .input_names = {"x"},
             .attributes = &attributes_schema<ArgmaxAttributes>(),
             .infer = infer_argmax,
             .reference = reference_argmax,
             .gradient = [](const BuildContext&) { return Values(1); },
             .traits = kReduction,
             .sample = sample_argmax});
}

Value reduce(const char* op, const Operand& x, const std::vector<int64_t>& axes, bool keepdims,
             CallSite site) {
  ReduceAttributes attributes{axes, keepdims};
  if (!x.is_literal()) {
    const size_t rank = x.value().shape().rank();
    attributes.axes = axes_from_front(axes, rank);
    std::sort(attributes.axes.begin(), attributes.axes.end());
    // One form for "all axes". Inference reports axes that repeat or are out of range.
    std::vector<int64_t> all(rank);
    for (size_t i = 0; i < rank; ++i) all[i] = static_cast<int64_t>(i);
    if (attributes.axes == all) attributes.axes.clear();
  }
  return emit(op, {x}, Attributes::of(std::move(attributes)), site);
}

}  // namespace

void register_reduce(OpTable& table) {
  register_sums(table);
  register_extremes(table);
}

Value sum(Operand x, const std::vector<int64_t>& axes, bool keepdims, CallSite site) {
  return reduce("sum", x, axes, keepdims, site);
}
Value mean(Operand x, const std::vector<int64_t>& axes, bool keepdims, CallSite site) {
  return reduce("mean", x, axes, keepdims, site);
}
Value max(Operand x, const std::vector<int64_t>& axes, bool keepdims, CallSite site) {
  return reduce("max", x, axes, keepdims, site);
}
Value min(Operand x, const std::vector<int64_t>& axes, bool keepdims, CallSite site) {
  return reduce("min", x, axes, keepdims, site);
}
Value prod(Operand x, const std::vector<int64_t>& axes, bool keepdims, CallSite site) {
  return reduce("prod", x, axes, keepdims, site);
}
Value logsumexp(Operand x, const std::vector<int64_t>& axes, bool keepdims, CallSite site) {
  return reduce("logsumexp", x, axes, keepdims, site);
}
Value argmax(Operand x, int64_t axis, bool keepdims, CallSite site) {
  if (!x.is_literal()) axis = axis_from_front(axis, x.value().shape().rank());
  return emit("argmax", {x}, Attributes::of(ArgmaxAttributes{axis, keepdims}), site);
}

Value sum_to_shape(Operand x, const Shape& shape, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  const Shape from = require_value(x, "sum_to_shape", "x", line).shape();
  if (from == shape) return x.value();
  if (broadcast(shape, from) != from) {
    throw Error({.op = "sum_to_shape",
                 .argument = "shape",
                 .expected = "a shape that broadcasts to " + to_string(from) + ", which x has",
                 .got = to_string(shape),
                 .site = line});
  }
  const size_t lead = from.rank() - shape.rank();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.rank(); ++i) {
    if (i < lead || (shape[i - lead] == 1 && from[i] != 1)) axes.push_back(static_cast<int64_t>(i));
  }
  const Value total = sum(x, axes, false, site);
  return total.shape() == shape ? total : reshape(total, shape, line);
}

}  // namespace keel
