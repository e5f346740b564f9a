// Layers that repeat make fused nodes that compute the same: one body serves them all
// (SharedBodies), and the backend is asked about it once (BackendAnswers). Both live as long as the
// pass that fuses; one thread.
#ifndef KEEL_GRAPH_PASSES_SHARED_BODIES_H
#define KEEL_GRAPH_PASSES_SHARED_BODIES_H

#include <cstddef>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/passes/passes.h"

namespace keel {

class SharedBodies {
 public:
  // The first body given with the same nodes, sites included: `body` itself where it is new.
  std::shared_ptr<Graph> of(std::shared_ptr<Graph> body);

 private:
  std::unordered_multimap<size_t, std::shared_ptr<Graph>> bodies_;
};

class BackendAnswers {
 public:
  // Of nodes of `op` in such graphs as `from`, which outlives this.
  BackendAnswers(const Graph& from, const OpDef& op, const SupportsFunction& supports)
      : from_(from), op_(op), supports_(supports) {}

  // What the backend says to a node with these bodies, shared ones, whose inputs have these types.
  const Support& to(const Values& inputs, const std::vector<std::shared_ptr<Graph>>& bodies,
                    CallSite site);

 private:
  const Graph& from_;
  const OpDef& op_;
  const SupportsFunction& supports_;
  std::map<std::vector<std::shared_ptr<Graph>>, Support> answers_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_SHARED_BODIES_H
