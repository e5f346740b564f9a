// Control flow of version 1 (Switch, Merge, Enter, Exit, NextIteration, LoopCond) made functional:
// a graph whose conditionals are nodes `If` and whose loops are nodes `While` with bodies, as the
// graphs of TensorFlow 2 have them. Pure functions; any thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_FUNCTIONALISE_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_FUNCTIONALISE_H

#include <map>
#include <string>
#include <vector>

#include "keel/ops/exchange/graphdef/file/graph_def.h"

namespace keel::graphdef {

struct ControlFlowNode {
  std::string name, op;
  std::string body;  // of the library, empty for a node of the graph
};

// Returns the nodes of version 1 control flow, those in the library's bodies and reference forms
// among them, in the order of the file.
std::vector<ControlFlowNode> version_1_control_flow(const GraphDef& graph);
bool has_version_1_control_flow(const GraphDef& graph);

// Returns the graph without such nodes. A conditional becomes `If` with the attributes
// `then_branch` and `else_branch`; its inputs are the condition and the operands of both bodies. A
// loop becomes `While` with `cond` and `body`; its inputs, its outputs and the arguments of both
// bodies are the loop variables, constants of the loop among them. A graph without such nodes is
// returned as it is.
//
// Nodes keep their names wherever they go. A Merge and an Exit become nodes of the same name that
// pass an output of the If or While on: `Identity`, or `IdentityN` for a Merge whose second output
// is read. Nodes in a branch or a loop that nothing outside depends on are left out; one with an
// effect, such as an assignment, is refused, since a run does not leave it out where a node without
// a value waits for it.
//
// `fetches` are names of values that the caller is going to read; they count as readers, and one
// that has no value in every run is refused. All that cannot be converted is refused in one
// Unconvertible, which lists the nodes by name and says why.
GraphDef functionalise(const GraphDef& graph, const std::vector<std::string>& fetches = {});

struct ControlFlowFindings {
  // Reasons why nodes cannot be converted, by "node", or "body/node" in a body.
  std::map<std::string, std::string> refused;
  // Nodes of the graph with effects that not every run reaches, as they are in a branch or a loop
  // of version 1; none where anything of the graph is refused.
  std::vector<std::string> conditional;
};

// Returns what functionalise finds in the graph and the bodies that it calls if nothing is fetched.
ControlFlowFindings examine_control_flow(const GraphDef& graph);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_FUNCTIONALISE_H
