#include "keel/ops/nn/clipping.h"

#include <cmath>
#include <limits>
#include <string>

#include "keel/core/base/half.h"
#include "keel/core/base/printable.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/precision/keep_dtype.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/argument_checks.h"
#include "keel/ops/nn/remembered.h"
#include "keel/ops/reduce.h"

namespace keel {
namespace {

// Where squares of a dtype are exact enough: the sum of as many as fit into memory is off by less
// than its last bit through those that are subnormal. A sum outside is computed anew of elements
// times 2^scale, or 2^-scale, where it is inside, and so is what the gradient of the norm
// multiplies on its way. A power of two rounds nothing differently.
struct SquareRange {
  double least;
  double most;
  int scale;
};

SquareRange square_range(DType dtype) {
  if (dtype == f64) return {std::ldexp(1.0, -900), std::numeric_limits<double>::max(), 600};
  return {std::ldexp(1.0, -80), std::numeric_limits<float>::max(), 80};
}

// Callers stand in a KeepDtypeScope: squares of small gradients are 0 in 16 bits.

// The sum of squares, times factor^2 where `factor` is valid.
Value sum_of_squares(const Values& gradients, DType dtype, const Value& factor, CallSite site) {
  Value total;
  for (const Value& g : gradients) {
    Value wide = cast(Operand(g, site), dtype, site);
    if (factor.valid()) wide = mul(wide, factor, site);
    const Value squares = sum(square(wide, site), {}, false, site);
    total = total.valid() ? add(total, squares, site) : squares;
  }
  return total;
}

Value norm_in(DType dtype, const Values& gradients, CallSite site) {
  const SquareRange range = square_range(dtype);
  const Value plain = sum_of_squares(gradients, dtype, {}, site);
  // Not so for NaN, which the other branch keeps.
  const Value exact = logical_and(greater_equal(plain, range.least, site),
                                  less_equal(plain, range.most, site), site);
  const auto root = [site](const Values& sums) { return Values{sqrt(sums[0], site)}; };
  const auto scaled_root = [&](const Values& sums) {
    const auto power = [&](int exponent) {
      return sums[0].graph().constant(Tensor::full(dtype, {}, std::ldexp(1.0, exponent)), site);
    };
    const Value up = power(range.scale), down = power(-range.scale);
    const Value small = less(sums[0], 1, site);
    const Value sum = sum_of_squares(gradients, dtype, select(small, up, down, site), site);
    // At 0 no direction is better than another, so the slope is 0 there, as that of stddev is. The
    // root's own slope there, infinity, would make NaN of it.
    const Value flat = equal(sum, 0, site);
    const Value root_of_sum = select(flat, 0, sqrt(select(flat, 1, sum, site), site), site);
    return Values{mul(root_of_sum, select(small, down, up, site), site)};
  };
  return cond(exact, {Operand(plain, site)}, root, scaled_root, site)[0];
}

double largest_of(DType dtype) {
  if (dtype == f16) return Half::from_bits(0x7bff);
  if (dtype == bf16) return BFloat16::from_bits(0x7f7f);
  return dtype == f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

// Throws Error for a limit that elements of that dtype have as 0.
void require_not_zero_in(DType dtype, double limit, const char* who, const char* argument,
                         const char* fix, CallSite site) {
  if (Tensor::full(dtype, {}, limit, site).at(0) != 0) return;
  throw Error({.op = who,
               .argument = argument,
               .expected = std::string("a number that is not 0 in ") + name_of(dtype),
               .got = printable(limit),
               .fix = fix,
               .site = site});
}

// The limit as elements of that dtype can have it.
double limit_in(DType dtype, double limit, CallSite site) {
  require_not_zero_in(dtype, limit, "clip_by_value", "limit",
                      "give a larger limit, or cast the gradients to f32", site);
  return std::isinf(Tensor::full(dtype, {}, limit, site).at(0)) ? largest_of(dtype) : limit;
}

void require_some(const char* who, const Values& gradients, CallSite site) {
  if (!gradients.empty()) return;
  throw Error({.op = who, .expected = "at least one gradient", .got = "none", .site = site});
}

// Returns the dtype that a norm of the gradients is computed in. Throws Error where there are none.
DType dtype_of_norm(const char* who, const Values& gradients, CallSite site) {
  require_some(who, gradients, site);
  DType dtype = f32;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string argument = "gradient " + std::to_string(i);
    const Value g = require_value(Operand(gradients[i], site), who, argument.c_str());
    if (g.dtype() == f64) dtype = f64;
  }
  return dtype;
}

void require_max_norm(const char* who, DType dtype, double max_norm, CallSite site) {
  require_positive(max_norm, who, "max_norm", site);
  require_not_zero_in(dtype, max_norm, who, "max_norm",
                      "give a larger one, or cast the gradients to f64", site);
  require_fits(dtype, max_norm, who, "max_norm", site);
}

}  // namespace

Value global_norm(const Values& gradients, CallSite site) {
  const DType dtype = dtype_of_norm("global_norm", gradients, site);
  const KeepDtypeScope exact(gradients[0].graph(), site);
  return norm_in(dtype, gradients, site);
}

Values clip_by_global_norm(const Values& gradients, double max_norm, CallSite site) {
  const char* who = "clip_by_global_norm";
  const DType dtype = dtype_of_norm(who, gradients, site);
  require_float_gradients(who, gradients, site);
  require_max_norm(who, dtype, max_norm, site);
  const KeepDtypeScope exact(gradients[0].graph(), site);
  const Value norm = norm_in(dtype, gradients, site);
  const Value scale = div(Operand(max_norm, site), maximum(norm, max_norm, site), site);
  Values clipped;
  for (const Value& g : gradients) {
    // A small scale would be 0, or inexact, in 16 bits.
    const Value wide = cast(Operand(g, site), norm.dtype(), site);
    clipped.push_back(cast(mul(wide, scale, site), g.dtype(), site));
  }
  return clipped;
}

Values clip_by_value(const Values& gradients, double limit, CallSite site) {
  const char* who = "clip_by_value";
  require_positive(limit, who, "limit", site);
  require_some(who, gradients, site);
  require_float_gradients(who, gradients, site);
  Values clipped;
  for (const Value& g : gradients) {
    const double most = limit_in(g.dtype(), limit, site);
    clipped.push_back(clamp(Operand(g, site), -most, most, site));
  }
  return clipped;
}

}  // namespace keel
