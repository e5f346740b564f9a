// Arithmetic, comparisons, functions of one number, activations.
#include "keel/ops/elementwise.h"

#include <limits>

#include "keel/ops/exchange/graphdef/one_shape.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/graphdef/selu.h"
#include "keel/ops/exchange/onnx/import_integers.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/shape.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;
using Unary = Value (*)(Operand, CallSite);
using Binary = Value (*)(Operand, Operand, CallSite);

template <Unary function>
Values unary(NodeContext& c) {
  return {function(c.in(0), {})};
}

template <Binary function>
Values binary(NodeContext& c) {
  return {function(c.in(0), c.in(1), {})};
}

// Operands of comparisons that do not broadcast are an error of Keel's, as they are by default of
// TensorFlow's.
template <Binary function>
Values comparison(NodeContext& c) {
  c.ignore("incompatible_shape_error");
  return binary<function>(c);
}

Values identity(NodeContext& c) {
  c.ignore("message");
  c.ignore("shape");
  return {c.in(0)};
}
// The message says why a gradient is missing.
Values stopped(NodeContext& c) {
  c.ignore("message");
  return {stop_gradient(c.in(0), {})};
}
Values identities(NodeContext& c) { return c.all(); }
Values no_value(NodeContext&) { return {}; }

// Printing and checking change no value. A check that is known to fail is refused.
Values printed(NodeContext& c) {
  for (const char* name : {"message", "first_n", "summarize", "U"}) c.ignore(name);
  return {c.in(0)};
}
Values checked(NodeContext& c) {
  c.ignore("summarize");
  const std::optional<Tensor> known = c.known(0);
  if (known && known->num_elements() == 1 && known->at(0) == 0) c.refuse("it fails always");
  return {};
}

Values add_all(NodeContext& c) {
  // AccumulateNV2 says the shape of its operands.
  c.ignore("shape");
  require_one_shape(c);
  Value sum = c.in(0);
  for (size_t i = 1; i < c.inputs(); ++i) sum = add(sum, c.in(i), {});
  return {sum};
}

// ---- divisions

// Integers are rounded down, as floats are.
Values floor_div(NodeContext& c) {
  const Value a = c.in(0), b = c.in(1);
  if (is_float(a.dtype({}))) return {floor(div(a, b, {}), {})};
  return {onnx::floored_quotient(a, b)};
}

// The remainder that has the dividend's sign.
Values truncated_mod(NodeContext& c) { return {onnx::truncated_remainder(c.in(0), c.in(1))}; }

Values truncated_div(NodeContext& c) {
  const Value a = c.in(0), b = c.in(1);
  const Value quotient = div(a, b, {});
  if (!is_float(a.dtype({}))) return {quotient};
  return {select(less(quotient, 0, {}), ceil(quotient, {}), floor(quotient, {}), {})};
}

Values div_or_zero(NodeContext& c) {
  const Value a = c.in(0), b = c.in(1);
  const Value zero = equal(b, 0, {});
  return {select(zero, 0.0, div(a, select(zero, 1.0, b, {}), {}), {})};
}

// A product that is 0 where y is, whatever x is.
Values mul_or_zero(NodeContext& c) {
  const Value x = c.in(0), y = c.in(1);
  const Value zero = equal(y, 0, {});
  return {select(zero, 0.0, mul(select(zero, 0.0, x, {}), y, {}), {})};
}

// x * log(y), and x / y, which are 0 where x is 0, whatever y is.
Values x_log_y(NodeContext& c) {
  const Value x = c.in(0), y = c.in(1);
  const Value zero = equal(x, 0, {});
  return {select(zero, 0.0, mul(x, log(select(zero, 1.0, y, {}), {}), {}), {})};
}
Values x_over_y(NodeContext& c) {
  const Value x = c.in(0), y = c.in(1);
  const Value zero = equal(x, 0, {});
  return {select(zero, 0.0, div(x, select(zero, 1.0, y, {}), {}), {})};
}

Values squared_difference(NodeContext& c) { return {square(sub(c.in(0), c.in(1), {}), {})}; }

Values tangent(NodeContext& c) {
  const Value x = c.in(0);
  return {div(sin(x, {}), cos(x, {}), {})};
}

// ---- activations

Values relu6(NodeContext& c) { return {clamp(c.in(0), 0, 6, {})}; }

Values elu(NodeContext& c) {
  const Value x = c.in(0);
  return {select(greater(x, 0, {}), x, expm1(minimum(x, 0, {}), {}), {})};
}

Values selu(NodeContext& c) {
  const Value x = c.in(0);
  const Value low = kSeluAlpha * expm1(minimum(x, 0, {}), {});
  return {kSeluScale * select(greater(x, 0, {}), x, low, {})};
}

Values leaky_relu(NodeContext& c) {
  const Value x = c.in(0);
  return {select(greater(x, 0, {}), x, c.attribute("alpha", 0.2) * x, {})};
}

Values softsign(NodeContext& c) {
  const Value x = c.in(0);
  return {div(x, abs(x, {}) + 1, {})};
}

// A bound is one number, or one for each element.
Values clip(NodeContext& c) {
  const Value x = c.in(0);
  for (const size_t bound : {1u, 2u})
    if (c.in(bound).shape({}).rank() != 0)
      c.require_shape(c.in(bound), x.shape({}), "its bound is");
  return {clamp(x, c.in(1), c.in(2), {})};
}

// The bias of the last axis, or of the channels of images NCHW.
Values bias_add(NodeContext& c) {
  const Value x = c.in(0), bias = c.in(1);
  c.require_rank(x, 2, Shape::kMaxRank, "its operand is");
  const size_t rank = x.shape({}).rank();
  const bool second = c.choice("data_format", {"NHWC", "NCHW"}) == "NCHW" && rank > 2;
  const size_t channel = second ? 1 : rank - 1;
  c.require_shape(bias, {x.shape({})[channel]}, "its bias is");
  return {add(x, onnx::along_axis(bias, channel, rank), {})};
}

// ---- what is known of numbers

Values is_nan(NodeContext& c) {
  const Value x = c.in(0);
  return {not_equal(x, x, {})};
}
Values is_inf(NodeContext& c) {
  return {equal(abs(c.in(0), {}), std::numeric_limits<double>::infinity(), {})};
}
Values is_finite(NodeContext& c) {
  return {less(abs(c.in(0), {}), std::numeric_limits<double>::infinity(), {})};
}

// ---- choice, dtype

// A vector of conditions chooses rows, and one condition all; else there is one for each element.
Values select_rows(NodeContext& c) {
  const Value condition = c.in(0), a = c.in(1), b = c.in(2);
  require_one_shape(c, 1);
  const Shape shape = a.shape({});
  const size_t conditions = condition.shape({}).rank();
  if (conditions == 1 && shape.rank() > 1) {
    c.require_shape(condition, {shape[0]}, "its condition is");
    return {select(onnx::along_axis(condition, 0, shape.rank()), a, b, {})};
  }
  if (conditions != 0) c.require_shape(condition, shape, "its condition is");
  return {select(condition, a, b, {})};
}

Values select_elements(NodeContext& c) { return {select(c.in(0), c.in(1), c.in(2), {})}; }

Values cast_of(NodeContext& c) {
  if (c.attribute("Truncate", int64_t{0}) != 0) c.refuse("it truncates digits of floats");
  return {cast(c.in(0), c.dtype_attribute("DstT"), {})};
}

}  // namespace

void register_graphdef_elementwise(OpRules& rules) {
  for (const char* op : {"Identity", "Snapshot", "EnsureShape", "CheckNumerics",
                         "PlaceholderWithDefault", "RefIdentity", "GuaranteeConst"})
    rules.add(op, identity);
  rules.add("ReadVariableOp", {.make = identity, .reads_handle = true});
  rules.add("IdentityN", identities);
  for (const char* op : {"StopGradient", "PreventGradient"}) rules.add(op, stopped);
  rules.add("Print", {.make = printed, .most_operands = 1});
  rules.add("Assert", {.make = checked, .gives_nothing = true, .most_operands = 1});
  rules.add("NoOp", {.make = no_value, .gives_nothing = true});
  rules.add("Add", {.make = binary<add>, .weights = {1}});
  rules.add("AddV2", {.make = binary<add>, .weights = {1}});
  rules.add("Sub", binary<sub>);
  rules.add("Mul", binary<mul>);
  rules.add("RealDiv", binary<div>);
  rules.add("Div", binary<div>);
  rules.add("TruncateDiv", truncated_div);
  rules.add("FloorDiv", floor_div);
  rules.add("FloorMod", binary<mod>);
  rules.add("Mod", truncated_mod);
  rules.add("TruncateMod", truncated_mod);
  rules.add("DivNoNan", div_or_zero);
  rules.add("MulNoNan", mul_or_zero);
  rules.add("Xlogy", x_log_y);
  rules.add("Xdivy", x_over_y);
  rules.add("Maximum", binary<maximum>);
  rules.add("Minimum", binary<minimum>);
  rules.add("Pow", binary<pow>);
  rules.add("SquaredDifference", squared_difference);
  rules.add("AddN", add_all);
  rules.add("AccumulateNV2", add_all);
  rules.add("BiasAdd", {.make = bias_add, .weights = {1}});
  rules.add("BiasAddV1", {.make = bias_add, .weights = {1}});
  rules.add("Equal", comparison<equal>);
  rules.add("NotEqual", comparison<not_equal>);
  rules.add("Less", comparison<less>);
  rules.add("LessEqual", comparison<less_equal>);
  rules.add("Greater", comparison<greater>);
  rules.add("GreaterEqual", comparison<greater_equal>);
  rules.add("LogicalAnd", binary<logical_and>);
  rules.add("LogicalOr", binary<logical_or>);
  rules.add("LogicalNot", unary<logical_not>);
  rules.add("Neg", unary<neg>);
  rules.add("Abs", unary<abs>);
  rules.add("Sign", unary<sign>);
  rules.add("Square", unary<square>);
  rules.add("Sqrt", unary<sqrt>);
  rules.add("Rsqrt", unary<rsqrt>);
  rules.add("Reciprocal", unary<reciprocal>);
  rules.add("Inv", unary<reciprocal>);
  rules.add("Exp", unary<exp>);
  rules.add("Expm1", unary<expm1>);
  rules.add("Log", unary<log>);
  rules.add("Log1p", unary<log1p>);
  rules.add("Sin", unary<sin>);
  rules.add("Cos", unary<cos>);
  rules.add("Tan", tangent);
  rules.add("Erf", unary<erf>);
  rules.add("Floor", unary<floor>);
  rules.add("Ceil", unary<ceil>);
  rules.add("Round", unary<round>);
  rules.add("Rint", unary<round>);
  rules.add("Relu", unary<relu>);
  rules.add("Relu6", relu6);
  rules.add("Elu", elu);
  rules.add("Selu", selu);
  rules.add("LeakyRelu", leaky_relu);
  rules.add("Sigmoid", unary<sigmoid>);
  rules.add("Tanh", unary<tanh>);
  rules.add("Softplus", unary<softplus>);
  rules.add("Softsign", softsign);
  rules.add("ClipByValue", clip);
  rules.add("IsNan", is_nan);
  rules.add("IsInf", is_inf);
  rules.add("IsFinite", is_finite);
  rules.add("Select", select_rows);
  rules.add("SelectV2", select_elements);
  rules.add("Cast", cast_of);
}

}  // namespace keel::graphdef
