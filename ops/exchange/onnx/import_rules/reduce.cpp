// Reductions, the largest and smallest by index, and scans.
#include "keel/ops/reduce.h"

#include "keel/ops/composed/rearrange.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/normalization.h"
#include "keel/ops/scan.h"

namespace keel::onnx {
namespace {

struct Axes {
  std::vector<int64_t> axes;
  bool keepdims = true;
  bool nothing = false;  // no axis at all is reduced
};

// Axes are an attribute before version 18 (of ReduceSum before 13), an input from it on.
Axes axes_of(NodeContext& c, int64_t input_since) {
  Axes result;
  result.keepdims = c.attribute("keepdims", int64_t{1}) != 0;
  const bool nothing_means_none = c.attribute("noop_with_empty_axes", int64_t{0}) != 0;
  if (c.version() < input_since)
    result.axes = c.attribute("axes", std::vector<int64_t>{});
  else if (c.has(1))
    result.axes = c.list(1, "axes");
  result.axes = front_axes(c, result.axes, c.in(0).shape({}).rank());
  result.nothing = c.in(0).shape({}).rank() == 0 || (result.axes.empty() && nothing_means_none);
  return result;
}

using Reduction = Value (*)(const Value& x, const Axes& axes);

template <Reduction reduction, int64_t input_since = 18>
Values reduce(NodeContext& c) {
  const Axes axes = axes_of(c, input_since);
  return {reduction(c.in(0), axes)};
}

Value sum_of(const Value& x, const Axes& a) {
  return a.nothing ? x : sum(x, a.axes, a.keepdims, {});
}
Value mean_of(const Value& x, const Axes& a) {
  return a.nothing ? x : mean(x, a.axes, a.keepdims, {});
}
Value max_of(const Value& x, const Axes& a) {
  return a.nothing ? x : max(x, a.axes, a.keepdims, {});
}
Value min_of(const Value& x, const Axes& a) {
  return a.nothing ? x : min(x, a.axes, a.keepdims, {});
}
Value product_of(const Value& x, const Axes& a) {
  return a.nothing ? x : prod(x, a.axes, a.keepdims, {});
}
Value first_norm(const Value& x, const Axes& a) { return sum_of(abs(x, {}), a); }

// Rules of several ops compute 16-bit floats in f32 between them: squares and sums may lie far
// beyond the numbers that they are of, and beyond the result.
Value square_sum(const Value& x, const Axes& a) {
  if (!is_float(x.dtype({}))) return sum_of(square(x, {}), a);
  return cast(sum_of(square(widened_for_norm(x, {}), {}), a), x.dtype({}), {});
}
Value second_norm(const Value& x, const Axes& a) {
  const DType dtype = x.dtype({});
  const Value wide = is_float(dtype) ? widened_for_norm(x, {}) : cast(x, f64, {});
  return cast(sqrt(sum_of(square(wide, {}), a), {}), dtype, {});
}
Value log_of_sum(const Value& x, const Axes& a) {
  if (!is_float(x.dtype({}))) return log(sum_of(x, a), {});
  return cast(log(sum_of(widened_for_norm(x, {}), a), {}), x.dtype({}), {});
}
Value log_of_exponentials(const Value& x, const Axes& a) {
  return a.nothing ? x : logsumexp(x, a.axes, a.keepdims, {});
}

// ---- by index

// Returns the index of the largest element, the first one or the last one of several.
Values largest(NodeContext& c, const Value& x) {
  const size_t axis = front_axis(c, c.attribute("axis", int64_t{0}), x.shape({}).rank());
  const bool keepdims = c.attribute("keepdims", int64_t{1}) != 0;
  const auto at = static_cast<int64_t>(axis);
  if (c.attribute("select_last_index", int64_t{0}) == 0) return {argmax(x, at, keepdims, {})};
  const int64_t size = x.shape({})[axis];
  if (size < 0) c.refuse("the size of its axis is not known before the run");
  return {sub(size - 1, argmax(reverse(x, {at}, {}), at, keepdims, {}), {})};
}

Values index_of_max(NodeContext& c) { return largest(c, c.in(0)); }

// Integers are turned around by their bits: the lowest one has no negative.
Values index_of_min(NodeContext& c) {
  const Value x = c.in(0);
  if (is_float(x.dtype({}))) return largest(c, neg(x, {}));
  const Value wide = x.dtype({}) == u8 ? cast(x, i32, {}) : x;
  return largest(c, sub(-1, wide, {}));
}

Values running_sum(NodeContext& c) {
  const bool exclusive = c.attribute("exclusive", int64_t{0}) != 0;
  const bool reversed = c.attribute("reverse", int64_t{0}) != 0;
  const int64_t axis = c.integer(1, "the axis");
  return {cumsum(c.in(0), axis, {.exclusive = exclusive, .reverse = reversed}, {})};
}

}  // namespace

void register_import_reduce(ImportRules& rules) {
  rules.add("ReduceSum", reduce<sum_of, 13>);
  rules.add("ReduceMean", reduce<mean_of>);
  rules.add("ReduceMax", reduce<max_of>);
  rules.add("ReduceMin", reduce<min_of>);
  rules.add("ReduceProd", reduce<product_of>);
  rules.add("ReduceL1", reduce<first_norm>);
  rules.add("ReduceL2", reduce<second_norm>);
  rules.add("ReduceSumSquare", reduce<square_sum>);
  rules.add("ReduceLogSum", reduce<log_of_sum>);
  rules.add("ReduceLogSumExp", reduce<log_of_exponentials>);
  rules.add("ArgMax", index_of_max);
  rules.add("ArgMin", index_of_min);
  rules.add("CumSum", running_sum);
}

}  // namespace keel::onnx
