// Functions of one number. What ONNX lacks is composed so that it keeps its digits.
#include "keel/ops/exchange/onnx/export_rules.h"

namespace keel::onnx {
namespace {

using Context = ExportContext;

ExportRule one_node(const std::string& op, const std::string& type) {
  return {.op = op,
          .write = [type](Context& c) { return ExportNames{c.op(type, {c.in(0)})}; },
          .dtypes = ExportDtypes::kWide};
}

ExportNames write_square(Context& c) {
  const std::string x = c.in(0);
  return {c.op("Mul", {x, x})};
}

// A zero keeps its sign, NaN stays NaN; Sign of ONNX says nothing of either.
ExportNames write_sign(Context& c) {
  const DType dtype = c.dtype(0);
  const std::string x = c.in(0), zero = c.number(dtype, 0);
  const std::string below = c.op("Where", {c.op("Less", {x, zero}), c.number(dtype, -1), x});
  return {c.op("Where", {c.op("Greater", {x, zero}), c.number(dtype, 1), below})};
}

ExportNames write_relu(Context& c) {
  const DType dtype = c.dtype(0);
  if (is_float(dtype)) return {c.op("Relu", {c.in(0)})};
  return {c.op("Max", {c.in(0), c.number(dtype, 0)})};
}

ExportNames write_rsqrt(Context& c) { return {c.op("Reciprocal", {c.op("Sqrt", {c.in(0)})})}; }

// log(u) * x / (u - 1) with u = 1 + x as it is rounded: the errors of u cancel. Source:
// Goldberg, "What Every Computer Scientist Should Know About Floating-Point Arithmetic" (1991).
ExportNames write_log1p(Context& c) {
  const DType dtype = c.dtype(0);
  const std::string x = c.in(0), one = c.number(dtype, 1);
  const std::string u = c.op("Add", {x, one});
  const std::string log = c.op("Log", {u});
  const std::string share = c.op("Div", {x, c.op("Sub", {u, one})});
  // Of large x, infinity among them, u is x; near 0 it is 1, and the logarithm x itself.
  const std::string large = c.op("Greater", {x, c.number(dtype, 0x1p60)});
  const std::string corrected = c.op("Where", {large, log, c.op("Mul", {log, share})});
  return {c.op("Where", {c.op("Equal", {u, one}), x, corrected})};
}

// (u - 1) * x / log(u) with u = exp(x) as it is rounded, likewise.
ExportNames write_expm1(Context& c) {
  const DType dtype = c.dtype(0);
  const std::string x = c.in(0), one = c.number(dtype, 1);
  const std::string u = c.op("Exp", {x});
  const std::string rest = c.op("Sub", {u, one});
  const std::string share = c.op("Div", {x, c.op("Log", {u})});
  // From where exp(x) or its distance to 1 is all that is left, no correction is needed.
  const std::string size = c.op("Abs", {x});
  const std::string large = c.op("Greater", {size, c.number(dtype, 50)});
  const std::string corrected = c.op("Where", {large, rest, c.op("Mul", {rest, share})});
  return {c.op("Where", {c.op("Equal", {u, one}), x, corrected})};
}

// x / 2 * (1 + erf(x / sqrt(2))). Below -30 the result is -0 in every dtype; an infinite x would
// make NaN of it.
ExportNames write_gelu(Context& c) {
  const DType dtype = c.dtype(0);
  const std::string given = c.in(0), least = c.number(dtype, -30);
  const std::string x = c.op("Where", {c.op("Less", {given, least}), least, given});
  const std::string erf = c.op("Erf", {c.op("Mul", {x, c.number(dtype, 0.70710678118654752440)})});
  const std::string share = c.op("Add", {erf, c.number(dtype, 1)});
  return {c.op("Mul", {c.op("Mul", {x, c.number(dtype, 0.5)}), share})};
}

}  // namespace

void register_export_functions(ExportRules& rules) {
  using enum ExportDtypes;
  rules.add(one_node("neg", "Neg"));
  rules.add(one_node("abs", "Abs"));
  rules.add({.op = "sign", .write = write_sign, .dtypes = kWide});
  rules.add({.op = "square", .write = write_square, .dtypes = kWide});
  rules.add({.op = "relu", .write = write_relu, .dtypes = kWide});
  rules.add(one_node("exp", "Exp"));
  rules.add(one_node("log", "Log"));
  rules.add({.op = "log1p", .write = write_log1p, .dtypes = kWide});
  rules.add({.op = "expm1", .write = write_expm1, .dtypes = kWide});
  rules.add(one_node("tanh", "Tanh"));
  rules.add(one_node("sigmoid", "Sigmoid"));
  rules.add(one_node("sqrt", "Sqrt"));
  rules.add({.op = "rsqrt", .write = write_rsqrt, .dtypes = kWide});
  rules.add(one_node("reciprocal", "Reciprocal"));
  rules.add({.op = "gelu", .write = write_gelu, .dtypes = kWide});
  rules.add(one_node("sin", "Sin"));
  rules.add(one_node("cos", "Cos"));
  rules.add(one_node("erf", "Erf"));
  rules.add(one_node("floor", "Floor"));
  rules.add(one_node("ceil", "Ceil"));
  rules.add(one_node("round", "Round"));
}

}  // namespace keel::onnx
