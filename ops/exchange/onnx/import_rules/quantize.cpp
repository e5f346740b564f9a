// Numbers as bytes with a scale and a zero point, and products of them.
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"

namespace keel::onnx {
namespace {

// A scale or zero point, of one number or one for each part along `axis`, beside a value.
Value beside(NodeContext& c, size_t input, size_t axis, size_t rank) {
  const Value x = c.in(input, StateUse::kKept);
  if (x.shape({}).rank() == 0) return x;
  if (x.shape({}).rank() == 1 && x.shape({})[0] == 1) return reshape(x, Shape{}, {});
  return along_axis(x, axis, rank);
}

size_t quantized_axis(NodeContext& c, size_t rank) {
  const int64_t axis = c.attribute("axis", int64_t{1});
  return rank < 2 ? 0 : front_axis(c, axis, rank);
}

// x / scale, rounded to even, plus the zero point, as bytes.
Value quantized(const Value& x, const Value& scale, const Value& zero) {
  const Value steps = round(div(x, scale, {}), {});
  return cast(zero.valid() ? add(steps, cast(zero, x.dtype({}), {}), {}) : steps, u8, {});
}

Value dequantized(const Value& x, const Value& scale, const Value& zero) {
  const Value whole = cast(x, i32, {});
  const Value shifted = zero.valid() ? sub(whole, cast(zero, i32, {}), {}) : whole;
  return mul(cast(shifted, scale.dtype({}), {}), scale, {});
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
  const size_t rank = x.shape({}).rank(), axis = quantized_axis(c, rank);
  const Value zero = c.has(2) ? beside(c, 2, axis, rank) : Value();
  if (zero.valid() && zero.dtype({}) != u8)
    c.refuse(std::string("it quantizes to ") + keel::name_of(zero.dtype({})));
  return {quantized(x, beside(c, 1, axis, rank), zero)};
}

Values dequantize(NodeContext& c) {
  require_defaults(c, c.in(1, StateUse::kKept).dtype({}));
  const Value x = c.in(0);
  const size_t rank = x.shape({}).rank(), axis = quantized_axis(c, rank);
  const Value zero = c.has(2) ? beside(c, 2, axis, rank) : Value();
  return {dequantized(x, beside(c, 1, axis, rank), zero)};
}

// The scale makes the values' range, with 0 in it, 255 steps.
Values dynamic_quantize(NodeContext& c) {
  const Value x = c.in(0);
  const Value high = maximum(max(x, {}, false, {}), 0.0, {});
  const Value low = minimum(min(x, {}, false, {}), 0.0, {});
  const Value scale = div(sub(high, low, {}), 255.0, {});
  const Value zero = cast(round(clamp(neg(div(low, scale, {}), {}), 0.0, 255.0, {}), {}), u8, {});
  return {quantized(x, scale, zero), scale, zero};
}

Values quantized_product(NodeContext& c) {
  // By rows of the left operand and by columns of the right one.
  const auto operand = [&](size_t i, size_t axis) {
    return dequantized(c.in(i), beside(c, i + 1, axis, 2), beside(c, i + 2, axis, 2));
  };
  const Value product = matmul(operand(0, 0), operand(3, 1), {}, {});
  return {quantized(product, beside(c, 6, 0, 2), beside(c, 7, 0, 2))};
}

}  // namespace

void register_import_quantize(ImportRules& rules) {
  rules.add("QuantizeLinear", quantize);
  rules.add("DequantizeLinear", dequantize);
  rules.add("DynamicQuantizeLinear", dynamic_quantize);
  rules.add("QLinearMatMul", quantized_product);
}

}  // namespace keel::onnx
