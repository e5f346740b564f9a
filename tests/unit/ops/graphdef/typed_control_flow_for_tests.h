// Pieces of graphs with version 1 control flow as TensorFlow 1 writes them.
#ifndef KEEL_TESTS_UNIT_OPS_GRAPHDEF_TYPED_CONTROL_FLOW_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_GRAPHDEF_TYPED_CONTROL_FLOW_FOR_TESTS_H

#include <string>
#include <utility>
#include <vector>

#include "ops/graphdef/graph_builder_for_tests.h"

namespace keel_test {

inline GraphDef graph_of(std::vector<NodeDef> nodes) {
  GraphDef graph;
  graph.source = "typed.pbtxt";
  graph.nodes = std::move(nodes);
  return graph;
}

inline void append(std::vector<NodeDef>& nodes, const std::vector<NodeDef>& more) {
  nodes.insert(nodes.end(), more.begin(), more.end());
}

// tf.cond(condition, ...) without its branches: the pivots and the condition's name in it.
inline std::vector<NodeDef> condition_nodes(const std::string& scope,
                                            const std::string& condition) {
  return {make_node(scope + "/Switch", "Switch", {condition, condition}),
          make_node(scope + "/switch_t", "Identity", {scope + "/Switch:1"}),
          make_node(scope + "/switch_f", "Identity", {scope + "/Switch"}),
          make_node(scope + "/pred_id", "Identity", {condition})};
}

inline NodeDef switched(const std::string& name, const std::string& value,
                        const std::string& scope) {
  return make_node(name, "Switch", {value, scope + "/pred_id"});
}

inline NodeDef number(const std::string& name, double value, std::vector<std::string> inputs = {}) {
  return make_constant(name, scalar(value), std::move(inputs));
}

// while i < limit: i = i + 1, x = x * factor
inline std::vector<NodeDef> power_loop() {
  return {number("zero", 0),
          number("one", 1),
          make_enter("while/Enter", "zero", "while/while_context"),
          make_enter("while/Enter_1", "one", "while/while_context"),
          make_node("while/Merge", "Merge", {"while/Enter", "while/NextIteration"}),
          make_node("while/Merge_1", "Merge", {"while/Enter_1", "while/NextIteration_1"}),
          make_enter("while/Less/Enter", "limit", "while/while_context", true),
          make_node("while/Less", "Less", {"while/Merge", "while/Less/Enter"}),
          make_node("while/LoopCond", "LoopCond", {"while/Less"}),
          make_node("while/Switch", "Switch", {"while/Merge", "while/LoopCond"}),
          make_node("while/Switch_1", "Switch", {"while/Merge_1", "while/LoopCond"}),
          make_node("while/Identity", "Identity", {"while/Switch:1"}),
          make_node("while/Identity_1", "Identity", {"while/Switch_1:1"}),
          number("while/add/y", 1, {"^while/Identity"}),
          make_node("while/add", "Add", {"while/Identity", "while/add/y"}),
          make_enter("while/Mul/Enter", "factor", "while/while_context", true),
          make_node("while/Mul", "Mul", {"while/Identity_1", "while/Mul/Enter"}),
          make_node("while/NextIteration", "NextIteration", {"while/add"}),
          make_node("while/NextIteration_1", "NextIteration", {"while/Mul"}),
          make_node("while/Exit", "Exit", {"while/Switch"}),
          make_node("while/Exit_1", "Exit", {"while/Switch_1"})};
}

inline std::vector<NodeDef> power_graph() {
  std::vector<NodeDef> nodes{make_node("limit", "Placeholder", {}),
                             make_node("factor", "Placeholder", {})};
  append(nodes, power_loop());
  return nodes;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_OPS_GRAPHDEF_TYPED_CONTROL_FLOW_FOR_TESTS_H
