// verify: checks what every graph must hold: inputs come from earlier nodes of
// the same graph (so there is no cycle and no dangling value), arity,
// attributes of the op's own kind, types equal to a recomputed inference,
// bodies that match their node, updates of states with equal types, no state
// assigned twice, no orphan captures. Throws Error naming the node and line.
#ifndef KEEL_GRAPH_PASSES_VERIFY_H
#define KEEL_GRAPH_PASSES_VERIFY_H

#include "keel/graph/ir/graph.h"

namespace keel {

KEEL_API void verify(const Graph &graph);

} // namespace keel

#endif // KEEL_GRAPH_PASSES_VERIFY_H
