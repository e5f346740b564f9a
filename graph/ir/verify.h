// verify: checks what every graph must hold: inputs come from earlier nodes of
// the same graph (so there is no cycle and no dangling value), arity,
// attributes of the op's own kind, types equal to a recomputed inference,
// bodies that match their node, updates of states with equal types, no state
// assigned twice, no orphan captures. Throws Error naming the node and line.
// Declared here because the parser verifies what it has read; defined in graph/passes, which knows
// the control ops.
#ifndef KEEL_GRAPH_IR_VERIFY_H
#define KEEL_GRAPH_IR_VERIFY_H

#include "keel/graph/ir/graph.h"

namespace keel {

// Verifies the graph and, once each, the bodies in it.
KEEL_API void verify(const Graph& graph);

// Verifies the part that Graph::add cannot check node by node: names of inputs and states, outputs,
// updates and attached updates. An unknown dimension of a next value may turn out to be the
// state's.
void verify_signature(const Graph& graph);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_VERIFY_H
