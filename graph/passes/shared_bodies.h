// SharedBodies: layers that repeat make fused nodes that compute the same; one body serves them
// all. Lives as long as the pass that fuses; one thread.
#ifndef KEEL_GRAPH_PASSES_SHARED_BODIES_H
#define KEEL_GRAPH_PASSES_SHARED_BODIES_H

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "keel/graph/ir/graph.h"

namespace keel {

class SharedBodies {
 public:
  // The first body given with the same nodes, sites included: `body` itself where it is new.
  std::shared_ptr<Graph> of(std::shared_ptr<Graph> body);

 private:
  std::unordered_multimap<size_t, std::shared_ptr<Graph>> bodies_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_SHARED_BODIES_H
