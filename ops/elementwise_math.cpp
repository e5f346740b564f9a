// Functions of one number.
#include <cmath>

#include "keel/ops/elementwise.h"
#include "keel/ops/elementwise_rules.h"
#include "keel/ops/masked_gradient.h"
#include "keel/ops/scalar_rules.h"

namespace keel {
namespace {

constexpr double kInverseSqrt2 = 0.70710678118654752440;
constexpr double kInverseSqrt2Pi = 0.39894228040143267794;
constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

// Gradients of one-input ops are written in this: every node they make carries the op's own site.
struct Flow {
  explicit Flow(const BuildContext& ctx)
      : site(ctx.site), x(ctx.inputs[0]), y(ctx.outputs[0]), g(ctx.output_gradients[0]) {}
  Value times(const Operand& a, const Operand& b) const { return mul(a, b, site); }
  Value over(const Operand& a, const Operand& b) const { return div(a, b, site); }
  Value minus(const Operand& a, const Operand& b) const { return sub(a, b, site); }
  Value plus(const Operand& a, const Operand& b) const { return add(a, b, site); }

  CallSite site;
  const Value &x, &y, &g;
};

GradientFunction gradient_of(Value (*rule)(const Flow&)) {
  return [rule](const BuildContext& ctx) -> Values { return {rule(Flow(ctx))}; };
}

Value gelu_gradient(const Flow& f) {
  const Value phi = f.times(f.plus(erf(f.times(f.x, kInverseSqrt2), f.site), 1), 0.5);
  // From 40 on the density is 0, and infinity times 0 would be NaN.
  const Value x = minimum(maximum(f.x, -1e3, f.site), 1e3, f.site);
  const Value density = f.times(exp(f.times(square(x, f.site), -0.5), f.site), kInverseSqrt2Pi);
  return f.times(f.g, f.plus(phi, f.times(x, density)));
}

Value erf_gradient(const Flow& f) {
  // From 28 on the slope is 0 in every dtype. The gradient of a square is infinite where x or 2x
  // is, and 0 times that would be NaN.
  const Value x = select(greater(abs(f.x, f.site), 28, f.site), 28, f.x, f.site);
  return f.times(f.g, f.times(exp(neg(square(x, f.site), f.site), f.site), kTwoOverSqrtPi));
}

Values decompose_softplus(const BuildContext& ctx) {
  const CallSite site = ctx.site;
  const DType dtype = ctx.inputs[0].dtype();
  const Value x = cast(Operand(ctx.inputs[0], site), dtype == f64 ? f64 : f32, site);
  const Value rest = log1p(exp(neg(abs(x, site), site), site), site);
  return {cast(Operand(add(relu(x, site), rest, site), site), dtype, site)};
}

void register_numbers(OpTable& table) {
  add_unary<kNumbers>(table,
                      {.name = "neg",
                       .summary = "-x",
                       .gradient = gradient_of([](const Flow& f) { return neg(f.g, f.site); }),
                       .cheap = true},
                      [](auto x) { return scalar::neg(x); });
  add_unary<kNumbers>(
      table,
      {.name = "abs",
       .summary = "|x|",
       .gradient = gradient_of([](const Flow& f) { return f.times(f.g, sign(f.x, f.site)); }),
       .cheap = true,
       .draw_a = draw_separated()},
      [](auto x) { return scalar::abs(x); });
  add_unary<kNumbers>(table, {.name = "sign", .summary = "-1, 0 or 1", .draw_a = draw_separated()},
                      [](auto x) { return scalar::sign(x); });
  add_unary<kNumbers>(
      table,
      {.name = "square",
       .summary = "x * x",
       .gradient = gradient_of([](const Flow& f) { return f.times(f.g, f.times(f.x, 2)); }),
       .cheap = true},
      [](auto x) { return scalar::mul(x, x); });
  add_unary<kNumbers>(
      table,
      {.name = "relu",
       .summary = "the larger of x and 0; NaN stays NaN",
       // y says so as well as x, and is kept for others anyway.
       .gradient = gradient_of([](const Flow& f) { return where_positive(f.y, f.g, f.site); }),
       .cheap = true,
       .draw_a = draw_separated()},
      [](auto x) { return scalar::relu(x); });
}

void register_exponentials(OpTable& table) {
  add_unary<kFloats>(table,
                     {.name = "exp",
                      .summary = "e to the power of x",
                      .gradient = gradient_of([](const Flow& f) { return f.times(f.g, f.y); }),
                      .mix_class = MixClass::kBlack,
                      .bound = {.ulps = 4}},
                     [](double x) { return std::exp(x); });
  add_unary<kFloats>(table,
                     {.name = "log",
                      .summary = "the natural logarithm",
                      .gradient = gradient_of([](const Flow& f) { return f.over(f.g, f.x); }),
                      .mix_class = MixClass::kBlack,
                      .bound = {.ulps = 4},
                      .draw_a = draw(0.25, 4)},
                     [](double x) { return std::log(x); });
  add_unary<kFloats>(
      table,
      {.name = "log1p",
       .summary = "log(1 + x), accurate near 0",
       .gradient = gradient_of([](const Flow& f) { return f.over(f.g, f.plus(f.x, 1)); }),
       .mix_class = MixClass::kBlack,
       .bound = {.ulps = 4},
       .draw_a = draw(-0.75, 4)},
      [](double x) { return std::log1p(x); });
  add_unary<kFloats>(
      table,
      {.name = "expm1",
       .summary = "exp(x) - 1, accurate near 0",
       .gradient = gradient_of([](const Flow& f) { return f.times(f.g, exp(f.x, f.site)); }),
       .mix_class = MixClass::kBlack,
       .bound = {.ulps = 4}},
      [](double x) { return std::expm1(x); });
  add_unary<kFloats>(table,
                     {.name = "tanh",
                      .summary = "the hyperbolic tangent",
                      .gradient = gradient_of([](const Flow& f) {
                        return f.times(f.g, f.minus(1, square(f.y, f.site)));
                      }),
                      .bound = {.ulps = 8}},
                     [](double x) { return std::tanh(x); });
  add_unary<kFloats>(table,
                     {.name = "sigmoid",
                      .summary = "1 / (1 + exp(-x))",
                      .gradient = gradient_of([](const Flow& f) {
                        return f.times(f.g, f.times(f.y, f.minus(1, f.y)));
                      }),
                      .bound = {.ulps = 8}},
                     [](double x) { return scalar::sigmoid(x); });
  add_unary<kFloats>(
      table,
      {.name = "softplus",
       .summary = "log(1 + exp(x)), without overflow",
       .gradient = gradient_of([](const Flow& f) { return f.times(f.g, sigmoid(f.x, f.site)); }),
       .bound = {.ulps = 8},
       .draw_a = draw(-8, 8),
       .decompose = decompose_softplus},
      [](double x) { return scalar::softplus(x); });
}

void register_roots(OpTable& table) {
  add_unary<kFloats>(
      table,
      {.name = "sqrt",
       .summary = "the square root",
       .gradient = gradient_of([](const Flow& f) { return f.over(f.times(f.g, 0.5), f.y); }),
       .bound = {.ulps = 1},
       .draw_a = draw(0.25, 4)},
      [](double x) { return std::sqrt(x); });
  add_unary<kFloats>(table,
                     {.name = "rsqrt",
                      .summary = "1 / sqrt(x)",
                      .gradient = gradient_of([](const Flow& f) {
                        return f.times(f.g, f.over(f.times(f.y, -0.5), f.x));
                      }),
                      .bound = {.ulps = 2},
                      .draw_a = draw(0.25, 4)},
                     [](double x) { return 1.0 / std::sqrt(x); });
  add_unary<kFloats>(table,
                     {.name = "reciprocal",
                      .summary = "1 / x",
                      .gradient = gradient_of([](const Flow& f) {
                        return f.times(f.g, neg(square(f.y, f.site), f.site));
                      }),
                      .bound = {.ulps = 1},
                      .draw_a = draw_signed(0.5, 2)},
                     [](double x) { return 1.0 / x; });
}

// The absolute part of their bounds (k) covers results near a zero of the function, where the
// argument's own rounding is all that is left.
void register_curves(OpTable& table) {
  add_unary<kFloats>(table,
                     {.name = "gelu",
                      .summary = "x * Phi(x) with the exact normal distribution function",
                      .gradient = gradient_of(gelu_gradient),
                      .bound = {.ulps = 8, .k = 2}},
                     [](double x) { return scalar::gelu(x); });
  add_unary<kFloats>(
      table,
      {.name = "sin",
       .summary = "the sine of x in radians",
       .gradient = gradient_of([](const Flow& f) { return f.times(f.g, cos(f.x, f.site)); }),
       .bound = {.ulps = 4, .k = 1}},
      [](double x) { return std::sin(x); });
  add_unary<kFloats>(table,
                     {.name = "cos",
                      .summary = "the cosine of x in radians",
                      .gradient = gradient_of([](const Flow& f) {
                        return f.times(f.g, neg(sin(f.x, f.site), f.site));
                      }),
                      .bound = {.ulps = 4, .k = 1}},
                     [](double x) { return std::cos(x); });
  add_unary<kFloats>(table,
                     {.name = "erf",
                      .summary = "the error function",
                      .gradient = gradient_of(erf_gradient),
                      .bound = {.ulps = 8}},
                     [](double x) { return std::erf(x); });
}

// Multiples of 1/4 are whole numbers and ties too, where these functions jump; odd multiples of 1/8
// are neither.
std::function<Sample(SampleSource&)> rounding_sample(const std::string& name) {
  return [name](SampleSource& source) -> Sample {
    const bool between = source.coin();
    const DrawFunction draw_x = [between](SampleSource& from, const Shape& shape) {
      Tensor x = from.values(shape, -16, 16);
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        x.set(i, (std::floor(x.at(i)) + (between ? 0.5 : 0)) / 4);
      }
      return x;
    };
    Sample sample = unary_sample(name, kFloats, draw_x)(source);
    sample.differentiable = {between};
    return sample;
  };
}

void register_roundings(OpTable& table) {
  add_unary<kFloats>(
      table, {.name = "floor", .summary = "the largest whole number <= x"},
      [](double x) { return std::floor(x); }, rounding_sample("floor"));
  add_unary<kFloats>(
      table, {.name = "ceil", .summary = "the smallest whole number >= x"},
      [](double x) { return std::ceil(x); }, rounding_sample("ceil"));
  add_unary<kFloats>(
      table, {.name = "round", .summary = "the nearest whole number; halves go to the even one"},
      [](double x) { return std::nearbyint(x); }, rounding_sample("round"));
}

}  // namespace

void register_elementwise_math(OpTable& table) {
  register_numbers(table);
  register_exponentials(table);
  register_roots(table);
  register_curves(table);
  register_roundings(table);
}

Value neg(Operand x, CallSite site) { return emit("neg", {x}, site); }
Value abs(Operand x, CallSite site) { return emit("abs", {x}, site); }
Value sign(Operand x, CallSite site) { return emit("sign", {x}, site); }
Value square(Operand x, CallSite site) { return emit("square", {x}, site); }
Value relu(Operand x, CallSite site) { return emit("relu", {x}, site); }
Value exp(Operand x, CallSite site) { return emit("exp", {x}, site); }
Value log(Operand x, CallSite site) { return emit("log", {x}, site); }
Value log1p(Operand x, CallSite site) { return emit("log1p", {x}, site); }
Value expm1(Operand x, CallSite site) { return emit("expm1", {x}, site); }
Value sqrt(Operand x, CallSite site) { return emit("sqrt", {x}, site); }
Value rsqrt(Operand x, CallSite site) { return emit("rsqrt", {x}, site); }
Value reciprocal(Operand x, CallSite site) { return emit("reciprocal", {x}, site); }
Value tanh(Operand x, CallSite site) { return emit("tanh", {x}, site); }
Value sigmoid(Operand x, CallSite site) { return emit("sigmoid", {x}, site); }
Value softplus(Operand x, CallSite site) { return emit("softplus", {x}, site); }
Value gelu(Operand x, CallSite site) { return emit("gelu", {x}, site); }
Value sin(Operand x, CallSite site) { return emit("sin", {x}, site); }
Value cos(Operand x, CallSite site) { return emit("cos", {x}, site); }
Value erf(Operand x, CallSite site) { return emit("erf", {x}, site); }
Value floor(Operand x, CallSite site) { return emit("floor", {x}, site); }
Value ceil(Operand x, CallSite site) { return emit("ceil", {x}, site); }
Value round(Operand x, CallSite site) { return emit("round", {x}, site); }

}  // namespace keel
