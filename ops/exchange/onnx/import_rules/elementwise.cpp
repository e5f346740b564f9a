// Arithmetic, functions of one number and activations.
#include "keel/ops/elementwise.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "keel/ops/exchange/onnx/import_integers.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/shape.h"

namespace keel::onnx {
namespace {

using Unary = Value (*)(Operand, CallSite);
using Binary = Value (*)(Operand, Operand, CallSite);

template <Unary function>
Values unary(NodeContext& c) {
  c.ignore("consumed_inputs");
  return {function(c.in(0), {})};
}

template <Binary function>
Values binary(NodeContext& c) {
  const auto [a, b] = broadcast_operands(c);
  return {function(a, b, {})};
}

template <Binary function>
Values variadic(NodeContext& c) {
  Value result = c.in(0);
  for (size_t i = 1; i < c.inputs(); ++i) result = function(result, c.in(i), {});
  return {result};
}

Values mean_of(NodeContext& c) { return {variadic<add>(c)[0] / static_cast<double>(c.inputs())}; }

// The exponent may have another dtype than the base, whose dtype the result has.
Values power(NodeContext& c) {
  auto [base, exponent] = broadcast_operands(c);
  const DType dtype = base.dtype({});
  if (exponent.dtype({}) == dtype) return {pow(base, exponent, {})};
  if (is_float(dtype) || is_integer(exponent.dtype({})))
    return {pow(base, cast(exponent, dtype, {}), {})};
  return {cast(pow(cast(base, f64, {}), cast(exponent, f64, {}), {}), dtype, {})};
}

// With fmod the remainder has the sign of the dividend, as in C; else that of the divisor.
Values remainder(NodeContext& c) {
  const auto [a, b] = broadcast_operands(c);
  if (c.attribute("fmod", int64_t{0}) == 0) return {mod(a, b, {})};
  return {truncated_remainder(a, b)};
}

// Of a power of two beyond the dtype, which wraps to 0, neither leaves a bit.
Values bit_shift(NodeContext& c) {
  const std::string direction = c.attribute("direction", "");
  const auto [x, by] = broadcast_operands(c);
  const Value factor = pow(Operand(c.result(Tensor::full(x.dtype({}), {}, 2))), by, {});
  if (direction == "LEFT") return {mul(x, factor, {})};
  if (direction == "RIGHT") return {div(x, factor, {})};
  c.refuse("its direction is '" + direction + "'");
}

// ---- trigonometry

// atan of a float: by Cephes' polynomial after two reductions of the range, and one step of
// Newton's method for f64. Source: Moshier, "Methods and Programs for Mathematical Functions"
// (1989).
Value arc_tangent(const Value& x) {
  const DType dtype = x.dtype({});
  const Value wide = size_of(dtype) == 2 ? cast(x, f32, {}) : x;
  const Value size = abs(wide, {});
  const Value large = greater(size, 1.0, {});
  // The branch not taken must not be infinite, for its gradient.
  const Value inverted = select(large, reciprocal(maximum(size, 1.0, {}), {}), size, {});
  const Value middle = greater(inverted, std::tan(std::numbers::pi / 8), {});
  const Value t = select(middle, (inverted - 1.0) / (inverted + 1.0), inverted, {});
  const Value z = square(t, {});
  const Value polynomial =
      ((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1;
  Value angle = polynomial * z * t + t;
  angle = select(middle, angle + std::numbers::pi / 4, angle, {});
  if (dtype == f64) {
    const Value sine = sin(angle, {}), cosine = cos(angle, {});
    angle = angle + (inverted * cosine - sine) / (cosine + inverted * sine);
  }
  angle = select(large, std::numbers::pi / 2 - angle, angle, {});
  return cast(select(less(wide, 0.0, {}), neg(angle, {}), angle, {}), dtype, {});
}

Values arc_sine(NodeContext& c) {
  const Value x = c.in(0);
  return {arc_tangent(x / sqrt((1.0 - x) * (1.0 + x), {}))};
}

Values arc_cosine(NodeContext& c) {
  const Value x = c.in(0);
  return {arc_tangent(sqrt((1.0 - x) / (1.0 + x), {})) * 2.0};
}

Values arc_tangent_of(NodeContext& c) { return {arc_tangent(c.in(0))}; }

Values tangent(NodeContext& c) {
  const Value x = c.in(0);
  return {sin(x, {}) / cos(x, {})};
}

// Both are made of exponentials of x / 2, whose squares overflow no sooner than the functions do:
// sinh(x) = 2 sinh(x / 2) cosh(x / 2), by expm1, which is precise near 0.
Values hyperbolic_sine(NodeContext& c) {
  const Value x = c.in(0);
  const Value up = expm1(x * 0.5, {}), down = expm1(x * -0.5, {});
  return {(up - down) * ((up + down) * 0.5 + 1.0)};
}

Values hyperbolic_cosine(NodeContext& c) {
  const Value x = c.in(0);
  const Value up = exp(x * 0.5, {}), down = exp(x * -0.5, {});
  return {up * 0.5 * up + down * 0.5 * down};
}

// Beyond this number, whose square the dtype still has, both area functions are log(2 x) to the
// last bit that counts.
Value is_far(const Value& size) { return greater(size, size.dtype({}) == f16 ? 100.0 : 1e9, {}); }
Value log_of_twice(const Value& size) { return log(size, {}) + std::numbers::ln2; }

Values area_sine(NodeContext& c) {
  const Value x = c.in(0);
  const Value size = abs(x, {});
  const Value beyond = square(x, {}) / (sqrt(square(x, {}) + 1.0, {}) + 1.0);
  return {sign(x, {}) * select(is_far(size), log_of_twice(size), log1p(size + beyond, {}), {})};
}

Values area_cosine(NodeContext& c) {
  const Value x = c.in(0);
  const Value above = x - 1.0;
  // One root of each factor: that of their product would be a number again far below 1, where the
  // function has none.
  const Value near = log1p(above + sqrt(above, {}) * sqrt(x + 1.0, {}), {});
  return {select(is_far(x), log_of_twice(x), near, {})};
}

Values area_tangent(NodeContext& c) {
  const Value x = c.in(0);
  return {(log1p(x, {}) - log1p(neg(x, {}), {})) * 0.5};
}

// ---- activations

Values leaky_relu(NodeContext& c) {
  const double alpha = c.attribute("alpha", 0.01);
  c.ignore("consumed_inputs");
  const Value x = c.in(0);
  return {select(less(x, 0.0, {}), x * alpha, x, {})};
}

// Returns alpha * (exp(x / scale) - 1) below 0, x above.
Value exponential_unit(const Value& x, double alpha, double scale) {
  const Value below = minimum(x, 0.0, {});
  const Value curve = expm1(scale == 1 ? below : below / scale, {}) * alpha;
  return select(less(x, 0.0, {}), curve, x, {});
}

Values elu(NodeContext& c) {
  c.ignore("consumed_inputs");
  const double alpha = c.attribute("alpha", 1.0);
  return {exponential_unit(c.in(0), alpha, 1)};
}

Values celu(NodeContext& c) {
  const double alpha = c.attribute("alpha", 1.0);
  return {exponential_unit(c.in(0), alpha, alpha)};
}

Values selu(NodeContext& c) {
  c.ignore("consumed_inputs");
  const bool old = c.version() < 6;
  const double alpha = c.attribute("alpha", old ? 1.6732 : 1.67326319217681884765625);
  const double gamma = c.attribute("gamma", old ? 1.0507 : 1.05070102214813232421875);
  return {exponential_unit(c.in(0), alpha, 1) * gamma};
}

// Before version 7 one slope of each channel, along axis 1.
Values parametric_relu(NodeContext& c) {
  c.ignore("consumed_inputs");
  const Value x = c.in(0);
  Value slope = c.in(1);
  if (c.version() < 7 && slope.shape({}).rank() == 1 && x.shape({}).rank() > 2)
    slope = along_axis(slope, 1, x.shape({}).rank());
  return {select(less(x, 0.0, {}), x * slope, x, {})};
}

Values hard_sigmoid(NodeContext& c) {
  const double alpha = c.attribute("alpha", 0.2), beta = c.attribute("beta", 0.5);
  c.ignore("consumed_inputs");
  return {clamp(c.in(0) * alpha + beta, 0.0, 1.0, {})};
}

Values hard_swish(NodeContext& c) {
  const Value x = c.in(0);
  return {x * clamp(x / 6.0 + 0.5, 0.0, 1.0, {})};
}

Values softsign(NodeContext& c) {
  const Value x = c.in(0);
  return {x / (abs(x, {}) + 1.0)};
}

// Returns what a number of an attribute, which is f32, is in another dtype of floats: infinite
// beyond what that holds. Integers take it as it is, so that a fraction is refused.
double converted(double number, DType dtype) {
  if (!is_float(dtype)) return number;
  return Tensor::full(f32, {}, number).cast(dtype, {}).at(0);
}

Values thresholded_relu(NodeContext& c) {
  const double alpha = c.attribute("alpha", 1.0);
  const Value x = c.in(0);
  return {select(greater(x, converted(alpha, x.dtype({})), {}), x, 0.0, {})};
}

Values shrink(NodeContext& c) {
  const double bias = c.attribute("bias", 0.0), limit = c.attribute("lambd", 0.5);
  const Value x = c.in(0);
  const Value zero = x * 0;
  const DType dtype = x.dtype({});
  const Value wide = is_float(dtype) ? x : cast(x, f32, {});
  const Value above = cast(wide - bias, dtype, {}), below = cast(wide + bias, dtype, {});
  return {
      select(greater(wide, limit, {}), above, select(less(wide, -limit, {}), below, zero, {}), {})};
}

Values mish(NodeContext& c) {
  const Value x = c.in(0);
  return {x * tanh(softplus(x, {}), {})};
}

Values gelu_of(NodeContext& c) {
  const std::string approximate = c.choice("approximate", {"none", "tanh"});
  const Value x = c.in(0);
  if (approximate == "none") return {gelu(x, {})};
  const Value cube = x * x * x;
  const double root = std::sqrt(2 / std::numbers::pi);
  return {x * 0.5 * (tanh((x + cube * 0.044715) * root, {}) + 1.0)};
}

// Bounds are attributes before version 11, inputs from it on.
Values clip(NodeContext& c) {
  c.ignore("consumed_inputs");
  Value x = c.in(0);
  if (c.version() < 11) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    const double least = converted(c.attribute("min", -kNone), x.dtype({}));
    const double most = converted(c.attribute("max", kNone), x.dtype({}));
    if (least != -kNone) x = maximum(x, least, {});
    if (most != kNone) x = minimum(x, most, {});
    return {x};
  }
  // A bound is one number, which some files have as a list of one.
  const auto bound = [&](size_t input) {
    const Value number = c.in(input, StateUse::kKept);
    if (number.shape({}).rank() == 1 && number.shape({})[0] == 1)
      return reshape(number, Shape{}, {});
    c.require_broadcast(number, x.shape({}), "its bound is");
    return number;
  };
  if (c.has(1)) x = maximum(x, bound(1), {});
  if (c.has(2)) x = minimum(x, bound(2), {});
  return {x};
}

}  // namespace

void register_import_elementwise(ImportRules& rules) {
  rules.add("Abs", unary<abs>);
  rules.add("Neg", unary<neg>);
  rules.add("Sign", unary<sign>);
  rules.add("Relu", unary<relu>);
  rules.add("Exp", unary<exp>);
  rules.add("Log", unary<log>);
  rules.add("Sqrt", unary<sqrt>);
  rules.add("Reciprocal", unary<reciprocal>);
  rules.add("Tanh", unary<tanh>);
  rules.add("Sigmoid", unary<sigmoid>);
  rules.add("Softplus", unary<softplus>);
  rules.add("Sin", unary<sin>);
  rules.add("Cos", unary<cos>);
  rules.add("Erf", unary<erf>);
  rules.add("Floor", unary<floor>);
  rules.add("Ceil", unary<ceil>);
  rules.add("Round", unary<round>);
  rules.add("Add", binary<add>);
  rules.add("Sub", binary<sub>);
  rules.add("Mul", binary<mul>);
  rules.add("Div", binary<div>);
  rules.add("Sum", variadic<add>);
  rules.add("Max", variadic<maximum>);
  rules.add("Min", variadic<minimum>);
  rules.add("Mean", mean_of);
  rules.add("Pow", power);
  rules.add("Mod", remainder);
  rules.add("BitShift", bit_shift);
  rules.add("Atan", arc_tangent_of);
  rules.add("Asin", arc_sine);
  rules.add("Acos", arc_cosine);
  rules.add("Tan", tangent);
  rules.add("Sinh", hyperbolic_sine);
  rules.add("Cosh", hyperbolic_cosine);
  rules.add("Asinh", area_sine);
  rules.add("Acosh", area_cosine);
  rules.add("Atanh", area_tangent);
  rules.add("LeakyRelu", leaky_relu);
  rules.add("Elu", elu);
  rules.add("Celu", celu);
  rules.add("Selu", selu);
  rules.add("PRelu", parametric_relu);
  rules.add("HardSigmoid", hard_sigmoid);
  rules.add("HardSwish", hard_swish);
  rules.add("Softsign", softsign);
  rules.add("ThresholdedRelu", thresholded_relu);
  rules.add("Shrink", shrink);
  rules.add("Mish", mish);
  rules.add("Gelu", gelu_of);
  rules.add("Clip", clip);
}

}  // namespace keel::onnx
