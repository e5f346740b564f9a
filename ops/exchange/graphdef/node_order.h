// The order of a graph's nodes. Internal to the import; plain functions.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_NODE_ORDER_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_NODE_ORDER_H

#include <string>
#include <vector>

#include "keel/ops/exchange/graphdef/file/graph_def.h"
#include "keel/ops/exchange/graphdef/op_rules.h"

namespace keel::graphdef {

// Indices of the nodes, each behind those that it reads or waits for, else in their own order.
// `source` is what errors name. Throws Error naming the nodes that wait for each other.
std::vector<size_t> node_order(const std::vector<NodeDef>& nodes, const std::string& source);

// Throws Error where a node reads a variable and comes behind one that assigns to it: in a step of
// Keel every node sees the variable as it was when the step began.
void require_reads_before_assignments(const std::vector<NodeDef>& nodes, const OpRules& rules,
                                      const std::string& source);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_NODE_ORDER_H
