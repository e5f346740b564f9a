#include "keel/ops/nn/clipping.h"

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
  Value total;
  for (const Value& g : gradients) {
    const Value squares = sum(square(cast(Operand(g, site), dtype, site), site), {}, false, site);
    total = total.valid() ? add(total, squares, site) : squares;
  }
  if (!total.valid())
    throw Error(
        {.op = "global_norm", .expected = "at least one gradient", .got = "none", .site = site});
  return sqrt(total, site);
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
