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
// are too large or too small for it do no harm; a norm that is too large itself is infinite, and
// clips to 0. Where it is 0 its gradient is 0, as that of stddev is.
KEEL_API Value global_norm(const Values& gradients, CallSite site = CallSite::here());
// All scaled by the same factor so that their global norm is at most max_norm, but for the rounding
// of elements to their dtype; unchanged where it is. An infinite gradient has no direction left: it
// becomes NaN, and all others 0; a NaN makes all of them NaN. apply_if(less(norm, infinity), ...)
// skips such steps. Throws Error for gradients that are no floats, and for a max_norm that is 0 or
// infinite in the norm's dtype.
KEEL_API Values clip_by_global_norm(const Values& gradients, double max_norm,
                                    CallSite site = CallSite::here());
// Each element moved into [-limit, limit], infinities too; NaN stays NaN. A limit beyond a dtype's
// largest number is that number. Throws Error for one that is 0 in it, and for integers or none.
KEEL_API Values clip_by_value(const Values& gradients, double limit,
                              CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_NN_CLIPPING_H
