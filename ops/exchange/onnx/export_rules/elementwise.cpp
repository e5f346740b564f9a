// Arithmetic, comparisons, logic and choice.
#include "keel/core/base/error.h"
#include "keel/ops/exchange/onnx/export_rules.h"

namespace keel::onnx {
namespace {

using Context = ExportContext;

// One node of ONNX that takes the inputs as they are.
ExportRule same(const std::string& op, const std::string& type, ExportDtypes dtypes) {
  return {.op = op,
          .write =
              [type](Context& c) {
                ExportNames inputs;
                for (size_t i = 0; i < c.inputs(); ++i) inputs.push_back(c.in(i));
                return ExportNames{c.op(type, inputs)};
              },
          .dtypes = dtypes};
}

// Returns whether a constant divisor makes the division of integers safe.
bool harmless(const Tensor* divisor) {
  if (divisor == nullptr) return false;
  for (int64_t i = 0; i < divisor->num_elements(); ++i) {
    if (divisor->at(i) == 0 || divisor->at(i) == -1) return false;
  }
  return true;
}

// Integers by 0 are undefined in ONNX, and so is the lowest number by -1: other divisors take their
// place.
struct Divisor {
  std::string zero, minus_one, safe;
};
Divisor divisor_of(Context& c, const std::string& b) {
  Divisor d;
  d.zero = c.op("Equal", {b, c.number(c.dtype(1), 0)});
  d.minus_one = c.op("Equal", {b, c.number(c.dtype(1), -1)});
  d.safe = c.op("Where", {c.op("Or", {d.zero, d.minus_one}), c.number(c.dtype(1), 1), b});
  return d;
}

ExportNames write_div(Context& c) {
  const DType dtype = c.dtype(0);
  if (is_float(dtype) || harmless(c.constant_input(1))) return {c.op("Div", {c.in(0), c.in(1)})};
  const std::string a = c.in(0);
  const Divisor d = divisor_of(c, c.in(1));
  const std::string quotient = c.op("Div", {a, d.safe});
  const std::string other = c.op("Where", {d.zero, c.number(dtype, 0), quotient});
  return {c.op("Where", {d.minus_one, c.op("Sub", {c.number(dtype, 0), a}), other})};
}

// The remainder of fmod has the sign of a; where that is not the sign of b, b is added.
ExportNames write_float_mod(Context& c) {
  const DType dtype = c.dtype(0);
  const std::string b = c.in(1);
  const std::string zero = c.number(dtype, 0);
  const std::string rest = c.op("Mod", {c.in(0), b}, {{"fmod", int64_t{1}}});
  const std::string below = c.op("Less", {b, zero});
  const std::string other_sign = c.op("Xor", {c.op("Less", {rest, zero}), below});
  const std::string moved = c.op("Where", {other_sign, c.op("Add", {rest, b}), rest});
  const std::string signed_zero = c.op("Where", {below, c.number(dtype, -0.0), zero});
  return {c.op("Where", {c.op("Equal", {rest, zero}), signed_zero, moved})};
}

ExportNames write_mod(Context& c) {
  if (is_float(c.dtype(0))) return write_float_mod(c);
  if (harmless(c.constant_input(1))) return {c.op("Mod", {c.in(0), c.in(1)})};
  // By 1, which takes the place of 0 and -1, the rest is 0, as it is by definition.
  return {c.op("Mod", {c.in(0), divisor_of(c, c.in(1)).safe})};
}

// Whole powers by repeated squaring, which wraps as products do: pow of ONNX goes through floats.
ExportNames write_integer_pow(Context& c) {
  const DType dtype = c.dtype(0);
  const std::string a = c.in(0), b = c.in(1);
  const std::string zero = c.number(dtype, 0), one = c.number(dtype, 1), two = c.number(dtype, 2);
  const ExportDimensions dims = c.result_dims();
  const std::string shape = c.dimensions(dims);
  const std::string negative = c.op("Less", {b, zero});
  const std::string exponent = c.op("Expand", {c.op("Where", {negative, zero, b}), shape});
  const std::string base = c.op("Expand", {a, shape});
  const std::string ones = c.op("Expand", {one, shape});
  // The loop's variables: what is multiplied up, the square, and what is left of the exponent.
  c.open_body();
  const std::string turn = c.unique("turn"), go_on = c.unique("go_on");
  const std::string power = c.unique("power"), square = c.unique("square"),
                    left = c.unique("exponent");
  const std::string odd = c.op("Equal", {c.op("Mod", {left, two}), one});
  const std::string next = c.op("Where", {odd, c.op("Mul", {power, square}), power});
  const std::string next_square = c.op("Mul", {square, square});
  const std::string next_left = c.op("Div", {left, two});
  WrittenValue variable = c.described_result(0);
  variable.dtype = dtype;
  const WrittenValue flag{.name = go_on, .dtype = boolean, .shape = {}};
  std::vector<WrittenValue> inputs{{.name = turn, .dtype = i64, .shape = {}}, flag};
  for (const std::string& name : {power, square, left}) {
    inputs.push_back(variable);
    inputs.back().name = name;
  }
  const auto body = c.close_body("power", inputs, {go_on, next, next_square, next_left},
                                 {flag, variable, variable, variable});
  const int64_t bits = dtype == i64 ? 63 : 31;
  const ExportNames loop =
      c.ops("Loop",
            {c.number(i64, static_cast<double>(bits)), c.number(boolean, 1), ones, base, exponent},
            3, {{"body", body}});
  // Negative exponents give 0, but for the bases 1 and -1.
  const std::string rest = c.op("Mod", {b, two});
  const std::string sign = c.op("Where", {c.op("Equal", {rest, zero}), one, c.number(dtype, -1)});
  const std::string of_minus_one =
      c.op("Where", {c.op("Equal", {a, c.number(dtype, -1)}), sign, zero});
  const std::string inverse = c.op("Where", {c.op("Equal", {a, one}), one, of_minus_one});
  return {c.op("Where", {negative, inverse, loop[0]})};
}

ExportNames write_pow(Context& c) {
  if (!is_float(c.dtype(0))) return write_integer_pow(c);
  return {c.op("Pow", {c.in(0), c.in(1)})};
}

ExportNames write_not_equal(Context& c) {
  return {c.op("Not", {c.op("Equal", {c.in(0), c.in(1)})})};
}

ExportNames write_select(Context& c) {
  const std::string p = c.in(0), a = c.in(1), b = c.in(2);
  if (c.dtype(1) != boolean) return {c.op("Where", {p, a, b})};
  // Runtimes lack Where for bool.
  return {c.op("Or", {c.op("And", {p, a}), c.op("And", {c.op("Not", {p}), b})})};
}

// Returns whether every number of `from` is one of `to`, or wraps or rounds as Cast of ONNX does.
bool plain_cast(DType from, DType to) { return !is_float(from) || is_float(to) || to == boolean; }

// Floats saturate on their way to integers and NaN becomes 0; Cast of ONNX leaves both open.
std::string saturated(Context& c, const std::string& x, DType from, DType to) {
  const double above = to == i64 ? 0x1p63 : to == i32 ? 0x1p31 : 0x1p8;
  const double lowest = to == u8 ? 0.0 : -above;
  const std::string high = c.number(from, above), low = c.number(from, lowest);
  const std::string too_large = c.op("GreaterOrEqual", {x, high});
  const std::string too_small = c.op("LessOrEqual", {x, low});
  const std::string outside = c.op("Or", {c.op("Or", {too_large, too_small}), c.op("IsNaN", {x})});
  const std::string safe = c.op("Where", {outside, c.number(from, 0), x});
  // u8 by way of i32, which has more kernels.
  const DType wide = to == u8 ? i32 : to;
  const std::string whole = c.cast(safe, from, wide);
  const auto limit = [&](bool largest) {
    if (to == u8) return c.number(i32, largest ? 255 : 0);
    if (to == i32) return c.number(i32, largest ? 2147483647.0 : -2147483648.0);
    return c.constant(Tensor::scalar<int64_t>(largest ? INT64_MAX : INT64_MIN));
  };
  const std::string capped = c.op("Where", {too_large, limit(true), whole});
  return c.cast(c.op("Where", {too_small, limit(false), capped}), wide, to);
}

ExportNames write_cast(Context& c) {
  const DType from = c.dtype(0), to = c.result_dtype();
  if (plain_cast(from, to)) return {c.cast(c.in(0), from, to)};
  const bool narrow = from == f16 || from == bf16;
  const std::string x = narrow ? c.cast(c.in(0), from, f32) : c.in(0);
  return {saturated(c, x, narrow ? f32 : from, to)};
}

ExportNames write_nothing(Context& c) { return {c.in(0)}; }

}  // namespace

void register_export_elementwise(ExportRules& rules) {
  using enum ExportDtypes;
  rules.add(same("add", "Add", kWide));
  rules.add(same("sub", "Sub", kWide));
  rules.add(same("mul", "Mul", kWide));
  rules.add({.op = "div", .write = write_div, .dtypes = kWide});
  rules.add({.op = "mod", .write = write_mod, .dtypes = kWide});
  rules.add({.op = "pow", .write = write_pow, .dtypes = kWide});
  rules.add(same("maximum", "Max", kWide));
  rules.add(same("minimum", "Min", kWide));
  rules.add(same("equal", "Equal", kWide));
  rules.add({.op = "not_equal", .write = write_not_equal, .dtypes = kWide});
  rules.add(same("less", "Less", kWide));
  rules.add(same("less_equal", "LessOrEqual", kWide));
  rules.add(same("greater", "Greater", kWide));
  rules.add(same("greater_equal", "GreaterOrEqual", kWide));
  rules.add(same("logical_and", "And", kAsStored));
  rules.add(same("logical_or", "Or", kAsStored));
  rules.add(same("logical_xor", "Xor", kAsStored));
  rules.add(same("logical_not", "Not", kAsStored));
  rules.add({.op = "select", .write = write_select, .dtypes = kWide});
  rules.add({.op = "cast", .write = write_cast});
  rules.add({.op = "stop_gradient", .write = write_nothing});
}

}  // namespace keel::onnx
