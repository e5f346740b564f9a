// Comparisons, logic, choice and conversion.
#include <limits>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"

namespace keel::onnx {
namespace {

using Binary = Value (*)(Operand, Operand, CallSite);

template <Binary function>
Values compare(NodeContext& c) {
  const auto [a, b] = broadcast_operands(c);
  return {function(a, b, {})};
}

Values negation(NodeContext& c) { return {logical_not(c.in(0), {})}; }

Values where_of(NodeContext& c) { return {select(c.in(0), c.in(1), c.in(2), {})}; }

// Before version 6 the dtype is a text.
Values conversion(NodeContext& c) {
  c.ignore("saturate");  // of 8-bit floats, which Keel has not
  return {cast(c.in(0), c.dtype_attribute("to"), {})};
}

Values conversion_like(NodeContext& c) {
  c.ignore("saturate");
  return {cast(c.in(0), c.in(1).dtype({}), {})};
}

Values is_nan(NodeContext& c) {
  const Value x = c.in(0);
  return {not_equal(x, x, {})};
}

Values is_infinite(NodeContext& c) {
  const bool negative = c.attribute("detect_negative", int64_t{1}) != 0;
  const bool positive = c.attribute("detect_positive", int64_t{1}) != 0;
  const Value x = c.in(0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Value above = equal(x, kInfinity, {}), below = equal(x, -kInfinity, {});
  if (negative && positive) return {logical_or(above, below, {})};
  if (negative) return {below};
  if (positive) return {above};
  return {logical_and(above, below, {})};
}

}  // namespace

void register_import_compare(ImportRules& rules) {
  rules.add("Equal", compare<equal>);
  rules.add("Less", compare<less>);
  rules.add("LessOrEqual", compare<less_equal>);
  rules.add("Greater", compare<greater>);
  rules.add("GreaterOrEqual", compare<greater_equal>);
  rules.add("And", compare<logical_and>);
  rules.add("Or", compare<logical_or>);
  rules.add("Xor", compare<logical_xor>);
  rules.add("Not", negation);
  rules.add("Where", where_of);
  rules.add("Cast", conversion);
  rules.add("CastLike", conversion_like);
  rules.add("IsNaN", is_nan);
  rules.add("IsInf", is_infinite);
}

}  // namespace keel::onnx
