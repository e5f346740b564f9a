// computed_from: a value computed once more, from other values in place of some of those under it:
// averaged weights in place of the weights, a part of a batch in place of the batch. Internal to
// ops/nn. Building: one thread per graph.
#ifndef KEEL_OPS_NN_COMPUTED_FROM_H
#define KEEL_OPS_NN_COMPUTED_FROM_H

#include <unordered_map>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel {

// Returns by node id what a value depends on.
std::vector<bool> nodes_under(Value value);

using Replacements = std::unordered_map<Value, Value, ValueHash>;

// Returns `value` computed from others in place of some of the values under it. What depends on
// none of these is shared, and so is what is `kept` (by node id). Throws Error where an effect
// depends on one.
Value computed_from(Value value, Replacements replaced, const std::vector<bool>& kept = {});

}  // namespace keel

#endif  // KEEL_OPS_NN_COMPUTED_FROM_H
