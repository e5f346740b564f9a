// RecomputeScope: blocks of a model whose values are not kept for their gradients but computed
// again from what entered the block when the gradients reach it. Same bits, less memory, one more
// forward pass of the block; gradients of gradients are the same but for rounding. A local variable
// on the thread that builds; the graph must outlive it.
//
//   for (const auto& block : blocks) {
//     const RecomputeScope again(x.graph());
//     x = block(x, mode);
//   }
//
// Each scope is a block of its own: what leaves one is kept, for it is what the next one begins
// with. Of scopes inside others the innermost counts, so what enters it is kept, too. Random masks
// are the same again; a while_loop inside keeps its turns only while its gradient is computed.
#ifndef KEEL_GRAPH_AUTODIFF_RECOMPUTE_H
#define KEEL_GRAPH_AUTODIFF_RECOMPUTE_H

#include <span>
#include <string>
#include <unordered_map>

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/scopes.h"

namespace keel {

// The scoped attribute behind it. Scopes of a graph that hold nodes differ in its value.
inline constexpr const char* kRecomputeAttribute = "recompute";

class KEEL_API RecomputeScope {
 public:
  explicit RecomputeScope(Graph& graph, CallSite site = CallSite::here());

 private:
  AttributeScope scope_;
};

// Adds the copies of a scope's nodes from which gradients are computed, each once, and finds them
// again. A local of expand_gradients; on the thread that builds the graph.
class Recomputation {
 public:
  explicit Recomputation(Graph& graph) : graph_(graph) {}

  // Returns what stands for `values`, inputs or outputs of `user`, in the gradient of `user`:
  // for those that were made in its scope, copies, which are added now.
  Values operator()(std::span<const Value> values, const Node& user);

 private:
  Value again(Value value, const std::string& scope);

  Graph& graph_;
  std::unordered_map<Value, Value, ValueHash> copies_;
};

// The block that the node is a copy for; null for any other node.
const std::string* copied_block(const Node& node);
// The label without the attribute: gradients are no part of the block.
NodeLabelPtr without_recompute(const NodeLabelPtr& label);

}  // namespace keel

#endif  // KEEL_GRAPH_AUTODIFF_RECOMPUTE_H
