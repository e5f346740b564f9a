// Clipping: bounds on gradients before an optimizer takes them.
//
//   auto states = trainable_states(loss);
//   auto clipped = clip_by_global_norm(gradients(loss, states), 1.0);
//   auto train = adam(0.001).apply(states, clipped);
#ifndef KEEL_OPS_NN_CLIPPING_H
#define KEEL_OPS_NN_CLIPPING_H

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"

namespace keel {

// sqrt(sum of the squares of all elements), in f32 (f64 where one of them is f64). Squares that
// are too large for it do no harm; a norm that is too large itself is infinite, and clips to 0.
KEEL_API Value global_norm(const Values& gradients, CallSite site = CallSite::here());
// All scaled by the same factor so that their global norm is at most max_norm; unchanged where it
// is.
KEEL_API Values clip_by_global_norm(const Values& gradients, double max_norm,
                                    CallSite site = CallSite::here());
// Each element moved into [-limit, limit]; NaN stays NaN.
KEEL_API Values clip_by_value(const Values& gradients, double limit,
                              CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_NN_CLIPPING_H
