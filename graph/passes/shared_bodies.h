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

  // Gives the node the first body that has the same nodes, sites and scoped attributes included;
  // its own where that is new. The node keeps its label, and with it the names of its members.
  void share(FusedNode& node);
  // Shares the node's body, and says what the backend answers to it.
  const Support& ask(FusedNode& node);

 private:
  const SupportsFunction& supports_;
  std::unordered_multimap<size_t, std::shared_ptr<Graph>> bodies_;
  std::unordered_map<const Graph*, Support> answers_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_SHARED_BODIES_H
