// Flow: which values of a graph depend on which others through floats: the paths that gradients
// take. Control ops are looked into, so that a loop variable counts only where its body connects
// it; stop_gradient ends a path. Pure functions; any thread.
#ifndef KEEL_GRAPH_AUTODIFF_FLOW_H
#define KEEL_GRAPH_AUTODIFF_FLOW_H

#include <cstddef>
#include <span>
#include <unordered_set>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel {

using ValueSet = std::unordered_set<Value, ValueHash>;

// Returns the floats that change when the xs (floats of the graph) do, these included.
ValueSet dependents_of(const Graph& graph, const Values& xs);
// Returns the floats that are computed from the xs: an x itself only where it is from another one.
ValueSet floats_computed_from(const Graph& graph, const Values& xs);
// Returns the floats that the ys (floats of the graph) are computed from, these included.
ValueSet sources_of(const Graph& graph, const Values& ys);

// Says of each of the values, from number `first` on, whether it is in the set.
std::vector<bool> mask_of_members(std::span<const Value> values, const ValueSet& set,
                                  size_t first = 0);
// Values of `values` where `mask` is set and the dtype is a float.
Values select_floats(const Values& values, const std::vector<bool>& mask);

// Answers for the body of a while_loop: `varied` says of each of its inputs whether it changes with
// the xs at the start; the result says it for any turn.
std::vector<bool> varied_in_loop(const Graph& body, std::vector<bool> varied);
// Likewise `useful` says of each output whether the ys are computed from its last value; the result
// says it for the values of any turn.
std::vector<bool> useful_in_loop(const Graph& body, std::vector<bool> useful);

}  // namespace keel

#endif  // KEEL_GRAPH_AUTODIFF_FLOW_H
