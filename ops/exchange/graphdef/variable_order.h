// Variables in the order of a step: what each node that reads a variable sees of the nodes that
// assign to it. Internal to the import; plain functions.
//
// References to variables and handles of resources are followed through the nodes that only hand
// them on (Identity, Switch, Enter ...), so that it does not matter how many of those lie between.
// A node sees the last of the assignments that it comes behind, by data or by control edges; one
// that no edges order with an assignment sees the variable as it was when the step began. Two
// assignments to one variable have to be ordered.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_VARIABLE_ORDER_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_VARIABLE_ORDER_H

#include <map>
#include <string>
#include <vector>

#include "keel/ops/exchange/graphdef/file/graph_def.h"
#include "keel/ops/exchange/graphdef/op_rules.h"

namespace keel::graphdef {

// The variables that a node assigns to, one for each operand that its rule says; empty where the
// operand is none.
using AssignedVariables = std::map<std::string, std::vector<std::string>>;

// Makes each node that reads a variable behind an assignment read the next value, which is the
// output of the assigning node with the number of its operand. Throws Error for two assignments
// without an order, and for reads of a variable that cannot be told among those that are assigned.
AssignedVariables order_variables(std::vector<NodeDef>& nodes, const OpRules& rules,
                                  const std::string& source);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_VARIABLE_ORDER_H
