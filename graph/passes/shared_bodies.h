// Layers that repeat make fused nodes that compute the same: one body serves them all, and the
// backend is asked about it once. Lives as long as the pass that fuses; one thread.
#ifndef KEEL_GRAPH_PASSES_SHARED_BODIES_H
#define KEEL_GRAPH_PASSES_SHARED_BODIES_H

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "keel/graph/ir/graph.h"
#include "keel/graph/passes/fuse_body.h"
#include "keel/graph/passes/passes.h"

namespace keel {

class SharedBodies {
 public:
  explicit SharedBodies(const SupportsFunction& supports) : supports_(supports) {}

  // Returns the fused node of these parts. Its body is the first one that has the same nodes, sites
  // and scoped attributes included; a new one where there is none. Its label has the names of its
  // own members.
  FusedNode fuse(const Graph& from, const FusedParts& parts);
  // Returns what the backend answers to a node that fuse() gave.
  const Support& ask(const FusedNode& node) { return trial_of(node).answer; }
  // Adds a node that fuse() gave to a graph. What inference says of its body was said once.
  const Node& add(Graph& to, const FusedNode& node, const Values& inputs) {
    return to.add_copy(*trial_of(node).node, inputs);
  }

 private:
  // A graph that has nothing but one node with a body.
  struct Trial {
    std::unique_ptr<Graph> graph;
    const Node* node = nullptr;
    Support answer;
  };
  const Trial& trial_of(const FusedNode& node);

  const SupportsFunction& supports_;
  std::unordered_multimap<size_t, std::shared_ptr<Graph>> bodies_;
  std::unordered_map<const Graph*, Trial> trials_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_SHARED_BODIES_H
