// The gradient of a relu: what came back where the result is above 0. Adds nodes to the graph of
// its operands; pure otherwise.
#ifndef KEEL_OPS_MASKED_GRADIENT_H
#define KEEL_OPS_MASKED_GRADIENT_H

#include "keel/graph/ir/graph.h"

namespace keel {

// Returns select(y > 0, gradient, 0). Where max_pool2d of y gave the gradient back, that is the
// gradient of the pooled results where these are above 0, given back: a chosen element is as large
// as its result, and elements that were not chosen have 0 either way. No bit differs, and there
// are fewer results than elements.
Value where_positive(const Value& y, const Value& gradient, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_MASKED_GRADIENT_H
