// freeze: a model with its weights as one graph that only answers, as it is deployed: what
// evaluation computes, without anything that is trained.
//
//   auto frozen = keel::freeze(graph, weights, {{"logits", logits}});
//   keel::write_file_atomically("frozen.keel", keel::print_graph(*frozen));
//
// Results are those of the graph with these weights in its states, to the last bit, on every
// backend. Pure; any thread that may read the graph.
#ifndef KEEL_GRAPH_PASSES_FREEZE_H
#define KEEL_GRAPH_PASSES_FREEZE_H

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/ir/graph.h"

namespace keel {

// The scoped attribute of constants whose readers are evaluated when compiling only where that
// changes no bit, and its only value. The pass `fold` goes by it.
inline constexpr const char* kFoldAttribute = "fold";
inline constexpr const char* kExactFold = "exact";

// Returns what the named `outputs` of a root graph need: states as constants with the values of
// `weights` by their names, the fields of a queue as inputs of theirs, the inputs that are reached.
// Updates stay behind, those that layers attached too. Weights that no output needs are left aside.
// Each name finds its output in the new graph; where the value's node cannot have it, as that of a
// second result, a node stop_gradient shows the value.
// Throws Error, and lists all of them,
//  - for states without a weight, and for weights of another dtype or shape,
//  - for random ops, such as the dropout of a training: give the outputs of evaluation,
// and where no output is given, for a name that is empty, comes twice or is that of another input
// which is reached, and for values of another graph.
KEEL_API std::unique_ptr<Graph> freeze(const Graph& graph,
                                       const std::map<std::string, Tensor>& weights,
                                       const std::vector<std::pair<std::string, Value>>& outputs,
                                       CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_FREEZE_H
