// Shared variables: TensorFlow knows a variable by its device, container and shared name, so that
// several nodes may stand for one. The part of a device that a node leaves open, all of it mostly,
// is that of any other: Keel runs them on one. Internal to the import; plain functions.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_SHARED_VARIABLES_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_SHARED_VARIABLES_H

#include <optional>

#include "keel/ops/exchange/graphdef/file/graph_def.h"
#include "keel/ops/exchange/graphdef/op_rules.h"

namespace keel::graphdef {

// Returns the graph with one node for each variable, the first, which the others hand on; nothing
// where no variable has several. Nodes of two dtypes stay apart, and so do those of several devices
// where one leaves open which of these is its own.
std::optional<GraphDef> merge_shared_variables(const GraphDef& graph, const OpRules& rules);

// Throws Error for such nodes, which are one variable, or may be.
void require_told_apart(const GraphDef& graph, const OpRules& rules);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_SHARED_VARIABLES_H
