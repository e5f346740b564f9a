#include "keel/ops/composed/filled.h"

#include "keel/graph/ir/graph.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

Value filled(const char* op, const Operand& x, double number, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  const Value like = require_value(x, op, "x", line);
  Graph& graph = like.graph(line);
  const bool is_bit = like.dtype() == boolean && (number == 0 || number == 1);
  const Value one = is_bit ? graph.constant(Tensor::full(boolean, {}, number), line)
                           : to_value(Operand(number, line), graph, like.dtype(), op);
  if (like.shape().known()) return broadcast_to(one, like.shape(), line);
  // An operand that is never chosen has the shape, and its elements do not matter.
  const Value never = graph.constant(Tensor::full(boolean, {}, 0), line);
  return select(never, stop_gradient(Operand(like, line), line), one, line);
}

}  // namespace

Value full_like(Operand x, double number, CallSite site) {
  return filled("full_like", x, number, site);
}

Value zeros_like(Operand x, CallSite site) { return filled("zeros_like", x, 0, site); }

Value ones_like(Operand x, CallSite site) { return filled("ones_like", x, 1, site); }

}  // namespace keel
