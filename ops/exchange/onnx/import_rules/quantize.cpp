// Numbers as bytes with a scale and a zero point, and products of them.
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_quantized.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"

namespace keel::onnx {
namespace {

size_t quantized_axis(NodeContext& c, size_t rank) {
  const int64_t axis = c.attribute("axis", int64_t{1});
  return rank < 2 ? 0 : front_axis(c, axis, rank);
}

// x rounded to even, plus the zero point, as bytes.
Value rounded(const Value& x, const Value& zero) {
  const Value steps = round(x, {});
  return cast(zero.valid() ? add(steps, cast(zero, x.dtype({}), {}), {}) : steps, u8, {});
}

// Attributes that came with op sets 21 and 23, of which only what says nothing new is taken: the
// defaults, and the dtype that results have anyway.
void require_defaults(NodeContext& c, DType result) {
  if (c.version() < 21) return;
  const auto require = [&](const char* name, bool may_name_result) {
    const int64_t given = c.attribute(name, int64_t{0});
    if (given == 0 || (may_name_result && dtype_of(static_cast<DataType>(given)) == result)) return;
    c.refuse(std::string("its ") + name + " is " + std::to_string(given) +
             ", where only 0, the default, " +
             (may_name_result ? "and its result's own dtype are known" : "is known"));
  };
  const bool quantizes = c.node().op == "QuantizeLinear";
  require("block_size", false);
  if (quantizes || c.version() >= 23) require("output_dtype", true);
  if (quantizes && c.version() >= 23) require("precision", false);
}

Values quantize(NodeContext& c) {
  c.ignore("saturate");
  require_defaults(c, u8);
  const Value x = c.in(0);
  const size_t axis = quantized_axis(c, x.shape({}).rank());
  const Value zero = c.has(2) ? beside(c, 2, x, axis, "its zero point is") : Value();
  if (zero.valid() && zero.dtype({}) != u8)
    c.refuse(std::string("it quantizes to ") + keel::name_of(zero.dtype({})));
  return {rounded(div(x, beside(c, 1, x, axis, "its scale is"), {}), zero)};
}

Values dequantize(NodeContext& c) {
  require_defaults(c, c.in(1, StateUse::kKept).dtype({}));
  const Value x = c.in(0);
  const size_t axis = quantized_axis(c, x.shape({}).rank());
  const Value scale = beside(c, 1, x, axis, "its scale is");
  return {mul(cast(less_zero_point(c, x, 2, axis), scale.dtype({}), {}), scale, {})};
}

// The scale makes the values' range, with 0 in it, 255 steps.
Values dynamic_quantize(NodeContext& c) {
  const Value x = c.in(0);
  const Value high = maximum(max(x, {}, false, {}), 0.0, {});
  const Value low = minimum(min(x, {}, false, {}), 0.0, {});
  const Value scale = div(sub(high, low, {}), 255.0, {});
  const Value zero = cast(round(clamp(neg(div(low, scale, {}), {}), 0.0, 255.0, {}), {}), u8, {});
  return {rounded(div(x, scale, {}), zero), scale, zero};
}

// Scales and zero points are those of rows of the left operand and of the result, and of columns of
// the right operand. Sums are of whole numbers, which are scaled once: products of scaled operands
// would round the other way where a result lies between two bytes.
Values quantized_product(NodeContext& c) {
  const Value a = c.in(0), b = c.in(3);
  const size_t rows = axis_of_rows(a), columns = axis_of_columns(b);
  const Value sums =
      matmul(less_zero_point(c, a, 2, rows), less_zero_point(c, b, 5, columns), {}, {});
  const auto scale = [&](size_t input, const Value& x, size_t axis) {
    return cast(beside(c, input, x, axis, "its scale is"), f32, {});
  };
  // A vector leaves no axis in the sums, beside which the other operand's scale has one of 1.
  const auto beside_sums = [](const Value& numbers, const Value& other, int64_t axis) {
    const bool more = other.shape({}).rank() == 1 && numbers.shape({}).rank() > 1;
    return more ? squeeze(numbers, {axis}, {}) : numbers;
  };
  const size_t rows_of_sums =
      rows == kOneNumber ? kOneNumber : sums.shape({}).rank() - (columns == kOneNumber ? 1 : 2);
  const Value scales =
      mul(beside_sums(scale(1, a, rows), b, -1), beside_sums(scale(4, b, columns), a, -2), {});
  const Value factor = div(scales, scale(6, sums, rows_of_sums), {});
  return {rounded(mul(cast(sums, f32, {}), factor, {}),
                  beside(c, 7, sums, rows_of_sums, "its zero point is"))};
}

}  // namespace

void register_import_quantize(ImportRules& rules) {
  rules.add("QuantizeLinear", quantize);
  rules.add("DequantizeLinear", dequantize);
  rules.add("DynamicQuantizeLinear", dynamic_quantize);
  rules.add("QLinearMatMul", quantized_product);
}

}  // namespace keel::onnx
