// Version 1 control flow that was typed by hand: the forms that TensorFlow 1 makes.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/ops/exchange/graphdef/control_flow/functionalise.h"

#include "ops/graphdef/functional_interpreter_for_tests.h"
#include "ops/graphdef/typed_control_flow_for_tests.h"
#include "ops/graphdef/version_1_interpreter_for_tests.h"

using namespace keel_test;
namespace graphdef = keel::graphdef;

TEST_SUITE_BEGIN("graphdef");

namespace {

const NodeDef* find_node(const std::vector<NodeDef>& nodes, const std::string& name) {
  for (const NodeDef& node : nodes)
    if (node.name == name) return &node;
  return nullptr;
}

size_t count_ops(const std::vector<NodeDef>& nodes, const std::string& op) {
  size_t count = 0;
  for (const NodeDef& node : nodes) count += node.op == op ? 1 : 0;
  return count;
}

const Body& body_of(const GraphDef& graph, const NodeDef& node, const char* attribute) {
  return graph.bodies.at(node.attributes.at(attribute).strings.at(0));
}

// Returns what both interpreters give for a fetch, which have to agree.
double both(const GraphDef& graph, const GraphDef& converted, const Feeds1& feeds,
            const std::string& fetch) {
  const auto plain = Version1Interpreter(graph, feeds).value(fetch);
  REQUIRE(plain.has_value());
  const Numbers functional = FunctionalInterpreter(converted, feeds).value(fetch);
  CHECK(same_numbers(*plain, functional));
  return functional.elements.at(0);
}

}  // namespace

TEST_CASE("a version 1 conditional becomes an If that users recognise") {
  std::vector<NodeDef> nodes{make_constant("Const", scalar(3)), make_node("x", "Placeholder", {}),
                             make_node("p", "Placeholder", {})};
  append(nodes, condition_nodes("cond", "p"));
  append(
      nodes,
      {switched("cond/Mul/Switch", "x", "cond"), switched("cond/Mul/Switch_1", "Const", "cond"),
       make_node("cond/Mul", "Mul", {"cond/Mul/Switch:1", "cond/Mul/Switch_1:1"}),
       switched("cond/Add/Switch", "x", "cond"), switched("cond/Add/Switch_1", "Const", "cond"),
       make_node("cond/Add", "Add", {"cond/Add/Switch", "cond/Add/Switch_1"}),
       make_node("cond/Merge", "Merge", {"cond/Add", "cond/Mul"}), make_node("init", "NoOp", {})});
  const GraphDef graph = graph_of(nodes);
  const GraphDef converted = graphdef::functionalise(graph);
  CHECK(both(graph, converted, {{"x", scalar(5)}, {"p", scalar(1, DataType::kBool)}},
             "cond/Merge") == 15);
  const Feeds1 otherwise{{"x", scalar(5)}, {"p", scalar(0, DataType::kBool)}};
  CHECK(both(graph, converted, otherwise, "cond/Merge") == 8);
  CHECK(FunctionalInterpreter(converted, otherwise).value("cond/Merge:0").elements.at(0) == 8);

  const NodeDef* conditional = find_node(converted.nodes, "cond/Merge/If");
  REQUIRE(conditional != nullptr);
  CHECK(conditional->op == "If");
  CHECK(conditional->inputs == std::vector<std::string>{"p", "x", "Const"});
  CHECK(conditional->attributes.at("then_branch").kind == AttrValue::Kind::kFunction);
  const Body& then = body_of(converted, *conditional, "then_branch");
  CHECK(then.arguments == std::vector<std::string>{"x", "Const"});
  CHECK(then.results == std::vector<std::string>{"cond/Mul"});
  REQUIRE(then.nodes.size() == 1);
  CHECK(then.nodes[0].inputs == std::vector<std::string>{"x", "Const"});
  CHECK(body_of(converted, *conditional, "else_branch").results ==
        std::vector<std::string>{"cond/Add"});
  const NodeDef* merge = find_node(converted.nodes, "cond/Merge");
  REQUIRE(merge != nullptr);
  CHECK(merge->op == "Identity");
  CHECK(merge->inputs == std::vector<std::string>{"cond/Merge/If"});
  CHECK(find_node(converted.nodes, "init") != nullptr);
  CHECK(find_node(converted.nodes, "cond/switch_t") == nullptr);
}

TEST_CASE("Merges of one condition become one If and value_index works") {
  std::vector<NodeDef> nodes{make_node("x", "Placeholder", {}), make_node("p", "Placeholder", {})};
  append(nodes, condition_nodes("cond", "p"));
  append(nodes, {switched("s", "x", "cond"), number("seven", 7, {"^cond/switch_t"}),
                 make_node("a", "Merge", {"s", "seven"}), make_node("b", "Merge", {"seven", "s"}),
                 make_node("c", "Merge", {"s:0", "s:1"}),
                 make_node("index_twice", "Add", {"a:1", "a:1"})});
  const GraphDef graph = graph_of(nodes);
  const GraphDef converted = graphdef::functionalise(graph, {"b:1"});
  CHECK(count_ops(converted.nodes, "If") == 1);
  CHECK(find_node(converted.nodes, "a")->op == "IdentityN");
  CHECK(find_node(converted.nodes, "c")->op == "Identity");
  for (const double p : {0.0, 1.0}) {
    const Feeds1 feeds{{"x", scalar(5)}, {"p", scalar(p, DataType::kBool)}};
    CHECK(both(graph, converted, feeds, "a") == (p == 0 ? 5 : 7));
    CHECK(both(graph, converted, feeds, "b") == (p == 0 ? 5 : 7));
    CHECK(both(graph, converted, feeds, "c") == 5);
    CHECK(both(graph, converted, feeds, "index_twice") == 2 * p);
    CHECK(both(graph, converted, feeds, "b:1") == 1 - p);
  }
}

TEST_CASE("a conditional that needs another one comes as an If of its own and the rest joins") {
  std::vector<NodeDef> nodes{make_node("x", "Placeholder", {}), make_node("p", "Placeholder", {}),
                             make_node("q", "Placeholder", {})};
  append(nodes, condition_nodes("first", "p"));
  append(nodes, condition_nodes("second", "q"));
  append(
      nodes,
      {switched("f", "x", "first"), make_node("f_neg", "Neg", {"f:1"}),
       make_node("first/Merge", "Merge", {"f", "f_neg"}), switched("g", "first/Merge", "second"),
       switched("h", "x", "second"), make_node("second/Merge", "Merge", {"h", "g:1"}),
       make_node("h_neg", "Neg", {"h:1"}), make_node("second/Merge_1", "Merge", {"h", "h_neg"})});
  const GraphDef graph = graph_of(nodes);
  const GraphDef converted = graphdef::functionalise(graph);
  CHECK(count_ops(converted.nodes, "If") == 2);
  for (int way = 0; way < 4; ++way) {
    const Feeds1 feeds{{"x", scalar(5)},
                       {"p", scalar(way & 1, DataType::kBool)},
                       {"q", scalar(way >> 1, DataType::kBool)}};
    CHECK(both(graph, converted, feeds, "second/Merge") == (way == 3 ? -5 : 5));
    CHECK(both(graph, converted, feeds, "second/Merge_1") == (way >= 2 ? -5 : 5));
  }
}

TEST_CASE("tf.case is a chain of Ifs whether its Merges have two inputs or more") {
  std::vector<NodeDef> nodes{make_node("p", "Placeholder", {}), make_node("q", "Placeholder", {})};
  append(nodes, condition_nodes("outer", "p"));
  append(nodes, {number("a", 10, {"^outer/switch_t"}), switched("q_in", "q", "outer")});
  append(nodes, condition_nodes("inner", "q_in"));
  append(nodes,
         {number("b", 20, {"^inner/switch_t"}), number("c", 30, {"^inner/switch_f"}),
          make_node("inner/Merge", "Merge", {"c", "b"}),
          make_node("outer/Merge", "Merge", {"inner/Merge", "a"}),
          make_node("three", "Merge", {"b", "c", "a"}), make_node("which", "Neg", {"three:1"})});
  const GraphDef graph = graph_of(nodes);
  const GraphDef converted = graphdef::functionalise(graph);
  for (int way = 0; way < 4; ++way) {
    const Feeds1 feeds{{"p", scalar(way & 1, DataType::kBool)},
                       {"q", scalar(way >> 1, DataType::kBool)}};
    const double expected = (way & 1) != 0 ? 10 : way >> 1 != 0 ? 20 : 30;
    CHECK(both(graph, converted, feeds, "outer/Merge") == expected);
    CHECK(both(graph, converted, feeds, "three") == expected);
    CHECK(both(graph, converted, feeds, "which") == -((way & 1) != 0 ? 2 : way >> 1 != 0 ? 0 : 1));
  }
  CHECK(count_ops(converted.nodes, "If") == 1);
}

TEST_CASE("a version 1 loop with constants becomes a While") {
  const GraphDef graph = graph_of(power_graph());
  const GraphDef converted = graphdef::functionalise(graph);
  CHECK(both(graph, converted, {{"limit", scalar(4)}, {"factor", scalar(3)}}, "while/Exit_1") ==
        81);
  CHECK(both(graph, converted, {{"limit", scalar(0)}, {"factor", scalar(3)}}, "while/Exit_1") == 1);
  CHECK(both(graph, converted, {{"limit", scalar(4)}, {"factor", scalar(3)}}, "while/Exit") == 4);

  const NodeDef* loop = find_node(converted.nodes, "while/while_context");
  REQUIRE(loop != nullptr);
  CHECK(loop->op == "While");
  CHECK(loop->inputs == std::vector<std::string>{"while/Enter", "while/Enter_1", "while/Less/Enter",
                                                 "while/Mul/Enter"});
  const Body& cond = body_of(converted, *loop, "cond");
  CHECK(cond.arguments == std::vector<std::string>{"while/Merge", "while/Merge_1",
                                                   "while/Less/Enter", "while/Mul/Enter"});
  CHECK(cond.results == std::vector<std::string>{"while/Less"});
  const Body& body = body_of(converted, *loop, "body");
  CHECK(body.arguments == cond.arguments);
  CHECK(body.results ==
        std::vector<std::string>{"while/add", "while/Mul", "while/Less/Enter", "while/Mul/Enter"});
  CHECK(find_node(converted.nodes, "while/Exit_1")->inputs ==
        std::vector<std::string>{"while/while_context:1"});
}

TEST_CASE("the second output of a loop's Merge tells the first iteration from the others") {
  std::vector<NodeDef> nodes = power_graph();
  for (NodeDef& node : nodes)
    if (node.name == "while/Mul") node.inputs[1] = "while/index";
  append(nodes, {make_node("while/index", "Add", {"while/Merge_1:1", "while/Mul/Enter"})});
  const GraphDef graph = graph_of(nodes);
  const GraphDef converted = graphdef::functionalise(graph);
  // 1 * (0 + 3) * (1 + 3) * (1 + 3)
  CHECK(both(graph, converted, {{"limit", scalar(3)}, {"factor", scalar(3)}}, "while/Exit_1") ==
        48);
}

TEST_CASE("loops and conditionals nest in each other") {
  // sum over i < limit of (i odd ? sum over j < i of (j < 2 ? 10 : 1) : 0)
  std::vector<NodeDef> nodes{make_node("limit", "Placeholder", {}),
                             number("zero", 0),
                             number("two", 2),
                             make_enter("o/Enter", "zero", "o"),
                             make_enter("o/Enter_1", "zero", "o"),
                             make_enter("o/limit", "limit", "o", true),
                             make_enter("o/two", "two", "o", true),
                             make_node("o/i", "Merge", {"o/Enter", "o/Next"}),
                             make_node("o/sum", "Merge", {"o/Enter_1", "o/Next_1"}),
                             make_node("o/Less", "Less", {"o/i", "o/limit"}),
                             number("o/bound", 1000, {"^o/i"}),
                             make_node("o/Less_1", "Less", {"o/sum", "o/bound"}),
                             make_node("o/And", "LogicalAnd", {"o/Less", "o/Less_1"}),
                             make_node("o/LoopCond", "LoopCond", {"o/And"}),
                             make_node("o/Switch", "Switch", {"o/i", "o/LoopCond"}),
                             make_node("o/Switch_1", "Switch", {"o/sum", "o/LoopCond"}),
                             make_node("o/Identity", "Identity", {"o/Switch:1"}),
                             make_node("o/Identity_1", "Identity", {"o/Switch_1:1"}),
                             number("o/one", 1, {"^o/Identity"}),
                             make_node("o/Mod", "FloorMod", {"o/Identity", "o/two"}),
                             number("o/half", 0, {"^o/Identity"}),
                             make_node("o/odd", "Greater", {"o/Mod", "o/half"})};
  append(nodes, condition_nodes("o/c", "o/odd"));
  append(
      nodes,
      {switched("o/c/i", "o/Identity", "o/c"), switched("o/c/two", "o/two", "o/c"),
       number("o/c/zero", 0, {"^o/c/switch_t"}), number("o/c/zero_1", 0, {"^o/c/switch_f"}),
       make_enter("n/Enter", "o/c/zero", "n"), make_enter("n/Enter_1", "o/c/zero", "n"),
       make_enter("n/i", "o/c/i:1", "n", true), make_enter("n/two", "o/c/two:1", "n", true),
       make_node("n/j", "Merge", {"n/Enter", "n/Next"}),
       make_node("n/sum", "Merge", {"n/Enter_1", "n/Next_1"}),
       make_node("n/Less", "Less", {"n/j", "n/i"}), make_node("n/LoopCond", "LoopCond", {"n/Less"}),
       make_node("n/Switch", "Switch", {"n/j", "n/LoopCond"}),
       make_node("n/Switch_1", "Switch", {"n/sum", "n/LoopCond"}),
       make_node("n/Identity", "Identity", {"n/Switch:1"}),
       make_node("n/Identity_1", "Identity", {"n/Switch_1:1"}),
       make_node("n/small", "Less", {"n/Identity", "n/two"})});
  append(nodes, condition_nodes("n/c", "n/small"));
  append(nodes,
         {number("n/c/ten", 10, {"^n/c/switch_t"}), number("n/c/one", 1, {"^n/c/switch_f"}),
          make_node("n/c/Merge", "Merge", {"n/c/one", "n/c/ten"}),
          make_node("n/Add", "Add", {"n/Identity_1", "n/c/Merge"}),
          number("n/one", 1, {"^n/Identity"}), make_node("n/Add_1", "Add", {"n/Identity", "n/one"}),
          make_node("n/Next", "NextIteration", {"n/Add_1"}),
          make_node("n/Next_1", "NextIteration", {"n/Add"}),
          make_node("n/Exit", "Exit", {"n/Switch_1"}),
          make_node("o/c/Merge", "Merge", {"o/c/zero_1", "n/Exit"}),
          make_node("o/Add", "Add", {"o/Identity_1", "o/c/Merge"}),
          make_node("o/Add_1", "Add", {"o/Identity", "o/one"}),
          make_node("o/Next", "NextIteration", {"o/Add_1"}),
          make_node("o/Next_1", "NextIteration", {"o/Add"}),
          make_node("o/Exit", "Exit", {"o/Switch_1"})});
  const GraphDef graph = graph_of(nodes);
  const GraphDef converted = graphdef::functionalise(graph);
  // i = 1: 10; i = 3: 10 + 10 + 1; i = 5: 10 + 10 + 1 + 1 + 1
  CHECK(both(graph, converted, {{"limit", scalar(6)}}, "o/Exit") == 10 + 21 + 23);
  CHECK(converted.bodies.size() == 8);
}

TEST_CASE("edges that order nodes stay where they mean something") {
  std::vector<NodeDef> nodes{make_node("x", "Placeholder", {}), make_node("p", "Placeholder", {}),
                             make_node("before", "Neg", {"x"})};
  append(nodes, condition_nodes("cond", "p"));
  append(nodes, {switched("s", "x", "cond"),
                 make_node("effect", "Print", {"s:1", "^before", "^cond/switch_t"}),
                 make_node("result", "Identity", {"s:1", "^effect"}),
                 make_node("unread", "Print", {"s:1"}), make_node("m", "Merge", {"s", "result"})});
  const GraphDef converted = graphdef::functionalise(graph_of(nodes));
  const NodeDef* conditional = find_node(converted.nodes, "m/If");
  REQUIRE(conditional != nullptr);
  CHECK(conditional->inputs == std::vector<std::string>{"p", "x", "^before"});
  const Body& then = body_of(converted, *conditional, "then_branch");
  REQUIRE(then.nodes.size() == 2);
  CHECK(then.nodes[0].name == "effect");
  CHECK(then.nodes[0].inputs == std::vector<std::string>{"x"});
  CHECK(then.nodes[1].inputs == std::vector<std::string>{"x", "^effect"});
}

TEST_CASE("version 1 control flow in a body of the library is converted under free names") {
  GraphDef graph = graph_of({make_node("call", "f", {})});
  Body body;
  body.name = "f";
  body.arguments = {"x", "p"};
  body.nodes = condition_nodes("cond", "p");
  append(body.nodes, {switched("s", "x", "cond"), make_node("n", "Neg", {"s:1"}),
                      make_node("m", "Merge", {"s", "n"})});
  body.results = {"m", "m:1"};
  graph.bodies["f"] = body;
  graph.bodies["m/If/then"] = {"m/If/then", {}, {}, {}};
  const GraphDef converted = graphdef::functionalise(graph);
  CHECK(!graphdef::has_version_1_control_flow(converted));
  REQUIRE(graphdef::has_version_1_control_flow(graph));
  const auto found = graphdef::version_1_control_flow(graph);
  REQUIRE(found.size() == 3);
  CHECK(found[0].name == "cond/Switch");
  CHECK(found[0].op == "Switch");
  CHECK(found[0].body == "f");
  const Body& made = converted.bodies.at("f");
  const NodeDef* conditional = find_node(made.nodes, "m/If");
  REQUIRE(conditional != nullptr);
  CHECK(conditional->attributes.at("then_branch").strings.at(0) == "m/If/then_1");
  CHECK(find_node(made.nodes, "m")->op == "IdentityN");
  CHECK(converted.nodes[0].op == "f");
}

TEST_CASE("a graph without version 1 control flow stays as it is") {
  const GraphDef graph = graph_of({make_node("b", "Neg", {"missing"}), make_node("b", "Neg", {})});
  const GraphDef converted = graphdef::functionalise(graph);
  REQUIRE(converted.nodes.size() == 2);
  CHECK(converted.nodes[0].inputs == std::vector<std::string>{"missing"});
}

TEST_SUITE_END();
