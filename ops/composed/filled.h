// Values of one number in the shape of another value, known or not: zeros_like, ones_like,
// full_like. Pure functions; any thread that may build the graph.
//
// Errors and printed graphs name `site`, or where that is not given the line that made x.
#ifndef KEEL_OPS_COMPOSED_FILLED_H
#define KEEL_OPS_COMPOSED_FILLED_H

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Returns `number` in x's dtype and in x's own shape, whatever it is in the run and whatever x
// holds, infinities and NaN too. Its gradient for x is 0. Throws Error for a number that x's dtype
// cannot hold.
KEEL_API Value full_like(Operand x, double number, CallSite site = {});
KEEL_API Value zeros_like(Operand x, CallSite site = {});
KEEL_API Value ones_like(Operand x, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_FILLED_H
