// Shared variables: TensorFlow knows a variable by its device, container and shared name, so that
// several nodes may stand for one. Internal to the import; plain functions.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_SHARED_VARIABLES_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_SHARED_VARIABLES_H

#include <optional>

#include "keel/ops/exchange/graphdef/file/graph_def.h"
#include "keel/ops/exchange/graphdef/op_rules.h"

namespace keel::graphdef {

// Returns the graph with one node for each variable, the first, which the others hand on; nothing
// where no variable has several. Nodes of two dtypes stay apart.
std::optional<GraphDef> merge_shared_variables(const GraphDef& graph, const OpRules& rules);

// Throws Error for a variable that nodes of the graph have in two dtypes.
void require_one_dtype(const GraphDef& graph, const OpRules& rules);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_SHARED_VARIABLES_H
