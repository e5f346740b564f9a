// SharedBodies: layers that repeat make fused nodes that compute the same. Their bodies are kept
// once, and the backend is asked once about each. Lives as long as the pass that fuses; one thread.
#ifndef KEEL_GRAPH_PASSES_SHARED_BODIES_H
#define KEEL_GRAPH_PASSES_SHARED_BODIES_H

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "keel/graph/ir/graph.h"
#include "keel/graph/passes/passes.h"

namespace keel {

class SharedBodies {
 public:
  explicit SharedBodies(const SupportsFunction& supports) : supports_(supports) {}

  struct Shared {
    std::shared_ptr<Graph> body;
    Support support;  // of a node of op `fused` over it
  };
  // The one that stands for all bodies with the same nodes, sites included. It stays where it is.
  const Shared& of(std::shared_ptr<Graph> body);

 private:
  Support ask(const std::shared_ptr<Graph>& body) const;

  const SupportsFunction& supports_;
  std::unordered_multimap<size_t, Shared> shared_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_SHARED_BODIES_H
