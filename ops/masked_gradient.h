// Masked gradients: what comes back to a relu passes where its result is above 0. Adds nodes to the
// graph of the operands; pure otherwise.
#ifndef KEEL_OPS_MASKED_GRADIENT_H
#define KEEL_OPS_MASKED_GRADIENT_H

#include "keel/graph/ir/graph.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/pool.h"

namespace keel {

// Returns select(y > 0, gradient, 0). If max_pool2d of y gave the gradient back, the results of the
// pool are masked instead, of which there are fewer: a chosen element is as large as its result,
// and elements that were not chosen get 0 either way. The bits are the same. cse merges the pool
// with the one that is there, unless y is a copy that a recompute scope or a loop made.
inline Value where_positive(const Value& y, const Value& gradient, CallSite site) {
  const Node& node = gradient.node();
  if (node.op_name() != "max_pool2d_gradient" || node.input(0) != y)
    return select(greater(y, 0, site), gradient, 0, site);
  const auto& pool = node.as<MaxPool2dAttributes>();
  const Value pooled = max_pool2d(y, pool, site);
  const Value kept = select(greater(pooled, 0, site), node.input(1), 0, site);
  return max_pool2d_gradient(y, kept, pool, node.site());
}

}  // namespace keel

#endif  // KEEL_OPS_MASKED_GRADIENT_H
