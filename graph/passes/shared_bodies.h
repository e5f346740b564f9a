// Layers that repeat make fused nodes that compute the same: one body serves them all, and the
// backend is asked about it once. Lives as long as the pass that fuses; one thread.
#ifndef KEEL_GRAPH_PASSES_SHARED_BODIES_H
#define KEEL_GRAPH_PASSES_SHARED_BODIES_H

#include <cstddef>
#include <memory>
#include <optional>
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
  const Support& ask(const FusedNode& node);
  // Adds a node that fuse() gave to a graph: a copy of the trial node, whose types hold wherever
  // the body is used, so that inference does not go over the body again.
  const Node& add(Graph& to, const FusedNode& node, const Values& inputs) {
    return to.add_copy(*trial_of(node).node, inputs);
  }

 private:
  // A graph of one node with a body, which is kept for its copies, and the backend's answer to it.
  struct Trial {
    std::unique_ptr<Graph> graph;
    const Node* node = nullptr;
    std::optional<Support> answer;  // nothing: not asked yet
  };
  Trial& trial_of(const FusedNode& node);

  const SupportsFunction& supports_;
  std::unordered_multimap<size_t, std::shared_ptr<Graph>> bodies_;
  std::unordered_map<const Graph*, Trial> trials_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_SHARED_BODIES_H
