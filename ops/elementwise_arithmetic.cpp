// Arithmetic of two operands.
#include <limits>

#include "keel/graph/ir/attributes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/elementwise_rules.h"
#include "keel/ops/reduce.h"
#include "keel/ops/scalar_rules.h"

namespace keel {
namespace {

// Returns the gradients of a and b, each summed over the axes along which that input was broadcast.
Values flows(const BuildContext& ctx, const Value& to_a, const Value& to_b) {
  return {sum_to_shape(to_a, ctx.inputs[0].shape(), ctx.site),
          sum_to_shape(to_b, ctx.inputs[1].shape(), ctx.site)};
}

Values add_gradient(const BuildContext& ctx) {
  const Value& g = ctx.output_gradients[0];
  return flows(ctx, g, g);
}

Values sub_gradient(const BuildContext& ctx) {
  const Value& g = ctx.output_gradients[0];
  return flows(ctx, g, neg(g, ctx.site));
}

Values mul_gradient(const BuildContext& ctx) {
  const Value& g = ctx.output_gradients[0];
  return flows(ctx, mul(g, ctx.inputs[1], ctx.site), mul(g, ctx.inputs[0], ctx.site));
}

Values div_gradient(const BuildContext& ctx) {
  const CallSite site = ctx.site;
  const Value to_a = div(ctx.output_gradients[0], ctx.inputs[1], site);
  return flows(ctx, to_a, neg(mul(to_a, ctx.outputs[0], site), site));
}

bool is_without_zero(const Value& v) {
  if (!v.node().is(OpRole::kConstant)) return false;
  const Tensor& known = v.node().as<ConstantAttributes>().value;
  for (int64_t i = 0; i < known.num_elements(); ++i)
    if (known.at(i) == 0) return false;
  return true;
}

// Returns b * a^(b-1), which is 0 with b = 0 for every a, infinities and NaN included. The formula
// stands with b = 0, too, so that its own gradient to b is 1/a there (NaN for a negative a, as
// powers of these have no gradient to the exponent). But where a is so small or large that it or
// its gradients to a multiply 0 by infinity, it is computed of 1 and dropped.
Value pow_slope(const Value& a, const Value& b, CallSite site) {
  if (is_without_zero(b)) return mul(b, pow(a, sub(b, 1, site), site), site);
  // 1 / least^3, which third gradients have, is finite but in f16.
  const double least = a.dtype() == f64 ? 1e-100 : a.dtype() == f16 ? 4e-3 : 1e-12;
  const double infinity = std::numeric_limits<double>::infinity();
  const Value no_b = equal(b, 0, site), size = abs(a, site);
  const Value tame = logical_and(greater(size, least, site), less(size, infinity, site), site);
  const Value flat = logical_and(no_b, logical_not(tame, site), site);
  const Value base = select(flat, 1, a, site);
  const Value exponent = select(flat, 1, sub(b, 1, site), site);
  const Value product = mul(b, pow(base, exponent, site), site);
  // Adding 0 makes 0 of the -0 that a negative a gives with b = 0.
  return select(flat, 0, select(no_b, add(product, 0, site), product, site), site);
}

// The slope and a^b * log(a), which is 0 with a = 0: the formula multiplies 0 by infinity there.
Values pow_gradient(const BuildContext& ctx) {
  const CallSite site = ctx.site;
  const Value &a = ctx.inputs[0], &b = ctx.inputs[1], &g = ctx.output_gradients[0];
  const Value slope = pow_slope(a, b, site), no_a = equal(a, 0, site);
  const Value base = select(no_a, 1, a, site);
  const Value growth = select(no_a, 0, mul(ctx.outputs[0], log(base, site), site), site);
  return flows(ctx, mul(g, slope, site), mul(g, growth, site));
}

// Returns all of the gradient where one side wins, half of it at ties, none where either is NaN.
Values winner_gradient(const BuildContext& ctx, const Value& a_wins, const Value& b_wins) {
  const CallSite site = ctx.site;
  const Value& g = ctx.output_gradients[0];
  const Value tie = select(equal(ctx.inputs[0], ctx.inputs[1], site), mul(g, 0.5, site), 0, site);
  return flows(ctx, select(a_wins, g, tie, site), select(b_wins, g, tie, site));
}

Values maximum_gradient(const BuildContext& ctx) {
  const Value &a = ctx.inputs[0], &b = ctx.inputs[1];
  return winner_gradient(ctx, greater(a, b, ctx.site), less(a, b, ctx.site));
}

Values minimum_gradient(const BuildContext& ctx) {
  const Value &a = ctx.inputs[0], &b = ctx.inputs[1];
  return winner_gradient(ctx, less(a, b, ctx.site), greater(a, b, ctx.site));
}

// mod(a, b) = a - floor(a / b) * b. The floor follows from the result, since that of a rounded
// quotient may be one off. The result equals b only where a has the other sign and is too small to
// change b; the floor is then -1.
Values mod_gradient(const BuildContext& ctx) {
  const CallSite site = ctx.site;
  const Value& g = ctx.output_gradients[0];
  const auto wide = [&](const Value& v) { return cast(v, v.dtype() == f64 ? f64 : f32, site); };
  const Value a = wide(ctx.inputs[0]), b = wide(ctx.inputs[1]), result = wide(ctx.outputs[0]);
  const Value turns = round(sub(div(a, b, site), div(result, b, site), site), site);
  const Value quotient = select(equal(result, b, site), -1, turns, site);
  return flows(ctx, g, cast(neg(mul(wide(g), quotient, site), site), g.dtype(), site));
}

// Integer exponents of either sign for integers; positive bases for floats.
Tensor draw_base(SampleSource& source, const Shape& shape) {
  return is_float(source.dtype()) ? source.values(shape, 0.25, 4) : source.values(shape, -3, 3);
}

// One binary op over tensors that share no element: for ops with a kink where a = b.
std::function<Sample(SampleSource&)> separated_sample(const std::string& name) {
  return [name](SampleSource& source) -> Sample {
    if (!is_number(source.dtype())) return {};
    Sample sample = binary_sample(name, kNumbers, draw_separated(), draw_separated())(source);
    if (!is_float(source.dtype())) return sample;
    // Multiples of 1/16 against multiples of 1/16 plus 1/32.
    Tensor& b = sample.inputs[1];
    for (int64_t i = 0; i < b.num_elements(); ++i) b.set(i, b.at(i) + 0.03125);
    return sample;
  };
}

// a = q * b + r with the remainder r well inside (0, b): mod jumps where r = 0.
Sample sample_mod(SampleSource& source) {
  if (!is_float(source.dtype())) {
    return binary_sample("mod", kNumbers, draw(-40, 40), draw(-7, 7))(source);
  }
  Sample sample = binary_sample("mod", kNumbers, draw(0.25, 0.75), draw_signed(0.5, 2))(source);
  Tensor& a = sample.inputs[0];
  const Tensor& b = sample.inputs[1];
  // Only a single divisor leaves the choice of the remainder free for every element.
  const bool smooth = b.num_elements() == 1;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double whole = static_cast<double>(source.integer(-3, 3));
    a.set(i, smooth ? (a.at(i) + whole) * b.at(0) : a.at(i) * 8 * whole);
  }
  sample.differentiable = {smooth, smooth};
  return sample;
}

}  // namespace

void register_elementwise_arithmetic(OpTable& table) {
  add_binary<kNumbers>(table,
                       {.name = "add",
                        .summary = "a + b",
                        .gradient = add_gradient,
                        .commutes = true,
                        .cheap = true,
                        .neutral = -0.0,  // +0 would turn -0 into 0
                        .role = OpRole::kAdd},
                       [](auto a, auto b) { return scalar::add(a, b); });
  add_binary<kNumbers>(
      table,
      {.name = "sub", .summary = "a - b", .gradient = sub_gradient, .cheap = true, .neutral = 0},
      [](auto a, auto b) { return scalar::sub(a, b); });
  add_binary<kNumbers>(table,
                       {.name = "mul",
                        .summary = "a * b",
                        .gradient = mul_gradient,
                        .commutes = true,
                        .cheap = true,
                        .neutral = 1},
                       [](auto a, auto b) { return scalar::mul(a, b); });
  add_binary<kNumbers>(table,
                       {.name = "div",
                        .summary = "a / b; integers truncate towards zero, and by zero give 0",
                        .gradient = div_gradient,
                        .neutral = 1,
                        .bound = {.ulps = 1},
                        .draw_b = draw_signed(0.5, 2)},
                       [](auto a, auto b) { return scalar::div(a, b); });
  add_binary<kNumbers>(table,
                       {.name = "pow",
                        .summary = "a to the power of b",
                        .gradient = pow_gradient,
                        .mix_class = MixClass::kBlack,
                        .bound = {.ulps = 16},
                        .draw_a = draw_base,
                        .draw_b = draw(-3, 3)},
                       [](auto a, auto b) { return scalar::pow(a, b); });
  add_binary<kNumbers>(
      table,
      {.name = "maximum",
       .summary = "the larger of a and b; NaN where either is NaN",
       .gradient = maximum_gradient,
       .cheap = true},
      [](auto a, auto b) { return scalar::maximum(a, b); }, separated_sample("maximum"));
  add_binary<kNumbers>(
      table,
      {.name = "minimum",
       .summary = "the smaller of a and b; NaN where either is NaN",
       .gradient = minimum_gradient,
       .cheap = true},
      [](auto a, auto b) { return scalar::minimum(a, b); }, separated_sample("minimum"));
  add_binary<kNumbers>(
      table,
      {.name = "mod",
       .summary = "the remainder of a / b with the sign of b",
       .gradient = mod_gradient},
      [](auto a, auto b) { return scalar::mod(a, b); }, sample_mod);
}

Value add(Operand a, Operand b, CallSite site) { return emit("add", {a, b}, site); }
Value sub(Operand a, Operand b, CallSite site) { return emit("sub", {a, b}, site); }
Value mul(Operand a, Operand b, CallSite site) { return emit("mul", {a, b}, site); }
Value div(Operand a, Operand b, CallSite site) { return emit("div", {a, b}, site); }
Value pow(Operand a, Operand b, CallSite site) { return emit("pow", {a, b}, site); }
Value maximum(Operand a, Operand b, CallSite site) { return emit("maximum", {a, b}, site); }
Value minimum(Operand a, Operand b, CallSite site) { return emit("minimum", {a, b}, site); }
Value mod(Operand a, Operand b, CallSite site) { return emit("mod", {a, b}, site); }

Value operator+(Operand a, Operand b) { return add(a, b); }
Value operator-(Operand a, Operand b) { return sub(a, b); }
Value operator*(Operand a, Operand b) { return mul(a, b); }
Value operator/(Operand a, Operand b) { return div(a, b); }
Value operator-(Operand a) { return neg(a); }

}  // namespace keel
