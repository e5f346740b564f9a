#include "keel/ops/nn/clipping.h"

#include <cmath>
#include <limits>
#include <string>

#include "keel/graph/ir/operand.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/argument_checks.h"
#include "keel/ops/reduce.h"

namespace keel {

Value global_norm(const Values& gradients, CallSite site) {
  DType dtype = f32;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string argument = "gradient " + std::to_string(i);
    if (require_value(Operand(gradients[i], site), "global_norm", argument.c_str()).dtype() == f64)
      dtype = f64;
  }
  if (gradients.empty())
    throw Error(
        {.op = "global_norm", .expected = "at least one gradient", .got = "none", .site = site});
  const auto root_of_squares = [&](double scale) {
    Value total;
    for (const Value& g : gradients) {
      Value wide = cast(Operand(g, site), dtype, site);
      if (scale != 1) wide = mul(wide, scale, site);
      const Value squares = sum(square(wide, site), {}, false, site);
      total = total.valid() ? add(total, squares, site) : squares;
    }
    return sqrt(total, site);
  };
  // Squares of large elements are infinite. Scaled down by a power of two they are not, nor is the
  // sum of as many as fit into memory; where nothing overflows, nothing is rounded differently.
  const int down = dtype == f64 ? 600 : 80;
  const double largest =
      dtype == f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const Value plain = root_of_squares(1);
  const Value scaled = mul(root_of_squares(std::ldexp(1.0, -down)), std::ldexp(1.0, down), site);
  return select(greater(plain, largest, site), scaled, plain, site);
}

Values clip_by_global_norm(const Values& gradients, double max_norm, CallSite site) {
  require_positive(max_norm, "clip_by_global_norm", "max_norm", site);
  const Value norm = global_norm(gradients, site);
  const Value scale = div(Operand(max_norm, site), maximum(norm, max_norm, site), site);
  Values clipped;
  for (const Value& g : gradients) clipped.push_back(mul(g, cast(scale, g.dtype(), site), site));
  return clipped;
}

Values clip_by_value(const Values& gradients, double limit, CallSite site) {
  require_positive(limit, "clip_by_value", "limit", site);
  Values clipped;
  for (const Value& g : gradients) clipped.push_back(clamp(Operand(g, site), -limit, limit, site));
  return clipped;
}

}  // namespace keel
