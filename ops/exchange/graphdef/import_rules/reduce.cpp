// Reductions along axes that are known at import, and what goes on along one.
#include "keel/ops/reduce.h"

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/loss.h"
#include "keel/ops/normalization.h"
#include "keel/ops/scan.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;
using Reduction = Value (*)(Operand, const std::vector<int64_t>&, bool, CallSite);

// No axis at all is no reduction.
template <Reduction function>
Value reduced(NodeContext& c, const Value& x) {
  const bool keepdims = c.attribute("keep_dims", int64_t{0}) != 0;
  const std::vector<int64_t> axes =
      onnx::front_axes(c, c.integers(1, "the axes"), x.shape({}).rank());
  return axes.empty() ? x : function(x, axes, keepdims, {});
}

template <Reduction function>
Values reduce(NodeContext& c) {
  return {reduced<function>(c, c.in(0))};
}

// That of integers is the sum over the count, rounded towards 0.
Values mean_of(NodeContext& c) {
  const Value x = c.in(0);
  if (is_float(x.dtype({}))) return {reduced<mean>(c, x)};
  const Value total = reduced<sum>(c, x);
  const int64_t all = c.known_shape(x, "its operand").num_elements();
  if (all == 0) c.refuse("it is the mean of no integers");
  return {div(total, all / total.shape({}).num_elements(), {})};
}

// The smallest of ones and zeros, and the largest, say whether all are true, and whether one is.
template <Reduction function>
Values reduce_bool(NodeContext& c) {
  return {cast(reduced<function>(c, cast(c.in(0), i32, {})), boolean, {})};
}

// Squares of 16-bit floats may lie far beyond the numbers and the result.
Values norm(NodeContext& c) {
  const Value x = c.in(0);
  const Value wide = is_float(x.dtype({})) ? widened_for_norm(x, {}) : cast(x, f64, {});
  return {cast(sqrt(reduced<sum>(c, square(wide, {})), {}), x.dtype({}), {})};
}

Values half_sum_of_squares(NodeContext& c) {
  const Value x = c.in(0);
  return {cast(0.5 * sum(square(widened_for_norm(x, {}), {}), {}, false, {}), x.dtype({}), {})};
}

Value place_of_largest(NodeContext& c, const Value& x) {
  const size_t axis = onnx::front_axis(c, c.integer(1, "the axis"), x.shape({}).rank());
  return cast(argmax(x, static_cast<int64_t>(axis), false, {}),
              c.dtype_attribute("output_type", i64), {});
}
Values arg_max(NodeContext& c) { return {place_of_largest(c, c.in(0))}; }
// The order of the numbers turned round; that of integers by their complement, which does not wrap.
Values arg_min(NodeContext& c) {
  const Value x = c.in(0);
  const DType dtype = x.dtype({});
  if (is_float(dtype)) return {place_of_largest(c, neg(x, {}))};
  return {place_of_largest(c, dtype == u8 ? sub(255, x, {}) : sub(-1, x, {}))};
}

using Scan = Value (*)(Operand, int64_t, ScanOptions, CallSite);
template <Scan function>
Values scan(NodeContext& c) {
  const ScanOptions options{.exclusive = c.attribute("exclusive", int64_t{0}) != 0,
                            .reverse = c.attribute("reverse", int64_t{0}) != 0};
  return {function(c.in(0), c.integer(1, "the axis"), options, {})};
}

}  // namespace

void register_graphdef_reduce(OpRules& rules) {
  rules.add("Sum", reduce<sum>);
  rules.add("Mean", mean_of);
  rules.add("Max", reduce<max>);
  rules.add("Min", reduce<min>);
  rules.add("Prod", reduce<prod>);
  rules.add("All", reduce_bool<min>);
  rules.add("Any", reduce_bool<max>);
  rules.add("EuclideanNorm", norm);
  rules.add("L2Loss", half_sum_of_squares);
  rules.add("ArgMax", arg_max);
  rules.add("ArgMin", arg_min);
  rules.add("Cumsum", scan<cumsum>);
  rules.add("Cumprod", scan<cumprod>);
}

}  // namespace keel::graphdef
