// Version 1 control flow that was typed by hand: the forms that TensorFlow 1 makes, and what is
// refused.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/ops/exchange/graphdef/functionalise.h"

#include "ops/graphdef/functional_interpreter_for_tests.h"
#include "ops/graphdef/graph_builder_for_tests.h"
#include "ops/graphdef/version_1_interpreter_for_tests.h"

using namespace keel_test;
namespace graphdef = keel::graphdef;

TEST_SUITE_BEGIN("graphdef");

namespace {

GraphDef graph_of(std::vector<NodeDef> nodes) {
  GraphDef graph;
  graph.source = "typed.pbtxt";
  graph.nodes = std::move(nodes);
  return graph;
}

void append(std::vector<NodeDef>& nodes, const std::vector<NodeDef>& more) {
  nodes.insert(nodes.end(), more.begin(), more.end());
}

// tf.cond(condition, ...) without its branches: the pivots and the condition's name in it.
std::vector<NodeDef> condition_nodes(const std::string& scope, const std::string& condition) {
  return {make_node(scope + "/Switch", "Switch", {condition, condition}),
          make_node(scope + "/switch_t", "Identity", {scope + "/Switch:1"}),
          make_node(scope + "/switch_f", "Identity", {scope + "/Switch"}),
          make_node(scope + "/pred_id", "Identity", {condition})};
}

NodeDef switched(const std::string& name, const std::string& value, const std::string& scope) {
  return make_node(name, "Switch", {value, scope + "/pred_id"});
}

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

std::string refusal(const GraphDef& graph, const std::vector<std::string>& fetches = {}) {
  try {
    graphdef::functionalise(graph, fetches);
  } catch (const keel::Error& error) {
    return error.what();
  }
  return "converted";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

NodeDef number(const std::string& name, double value, std::vector<std::string> inputs = {}) {
  return make_constant(name, scalar(value), std::move(inputs));
}

// while i < limit: i = i + 1, x = x * factor
std::vector<NodeDef> power_loop() {
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

std::vector<NodeDef> power_graph() {
  std::vector<NodeDef> nodes{make_node("limit", "Placeholder", {}),
                             make_node("factor", "Placeholder", {})};
  append(nodes, power_loop());
  return nodes;
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

// ---- refusals

TEST_CASE("reference forms of control flow are refused by name") {
  std::vector<NodeDef> nodes{make_node("x", "Placeholder", {}), make_node("p", "Placeholder", {}),
                             make_node("r", "RefSwitch", {"x", "p"}),
                             make_node("s", "Switch", {"x", "p"}),
                             make_node("t", "RefMerge", {"r", "r:1"})};
  nodes[3].attributes["T"] = {.kind = AttrValue::Kind::kType, .ints = {101}};
  const std::string text = refusal(graph_of(nodes));
  CAPTURE(text);
  CHECK(contains(text, "typed.pbtxt"));
  CHECK(contains(text, "'r': RefSwitch of a reference"));
  CHECK(contains(text, "'s': Switch of a reference"));
  CHECK(contains(text, "'t': RefMerge of a reference"));
  CHECK(graphdef::version_1_control_flow(graph_of(nodes)).size() == 3);
}

TEST_CASE("frames that are no loops are refused by name") {
  struct Case {
    std::string why;
    std::function<void(std::vector<NodeDef>&)> change;
    std::string expected;
  };
  const auto replace = [](const std::string& name, size_t input, const std::string& by) {
    return [=](std::vector<NodeDef>& nodes) {
      for (NodeDef& node : nodes)
        if (node.name == name) node.inputs.at(input) = by;
    };
  };
  const auto add = [](const NodeDef& node) {
    return [=](std::vector<NodeDef>& nodes) { nodes.push_back(node); };
  };
  const std::vector<Case> cases{
      {"a node in two frames", replace("while/Mul", 1, "factor"),
       "'while/Mul': reads values of two frames, 'while/while_context' and that of the graph"},
      {"an Exit without a Switch", replace("while/Exit", 0, "while/Merge"),
       "'while/Exit': Exit without a Switch"},
      {"an Exit of the body", replace("while/Exit", 0, "while/Switch:1"),
       "'while/Exit': Exit without a Switch"},
      {"an Exit outside", add(make_node("e", "Exit", {"limit"})), "'e': Exit outside of a frame"},
      {"a NextIteration that nobody reads", add(make_node("n", "NextIteration", {"while/add"})),
       "'n': NextIteration without a Merge"},
      {"a NextIteration into a plain node", add(make_node("n", "Neg", {"while/NextIteration"})),
       "'while/NextIteration': NextIteration without a Merge"},
      {"a loop without LoopCond",
       [](std::vector<NodeDef>& nodes) {
         for (NodeDef& node : nodes)
           if (node.op == "LoopCond") node.op = "Identity";
       },
       "'while/Enter', 'while/Enter_1', 'while/Less/Enter', 'while/Mul/Enter': Enter to nowhere"},
      {"an Enter to nowhere", add(make_enter("lost", "limit", "elsewhere")),
       "'lost': Enter to nowhere: frame 'elsewhere' has no LoopCond"},
      {"a value that is not guarded", replace("while/NextIteration", 0, "while/Merge"),
       "'while/NextIteration': NextIteration of a value that is not there exactly when"},
      {"an Enter that is read without a Merge", replace("while/Mul", 1, "while/Enter"),
       "'while/Mul': reads 'while/Enter', an Enter that is no constant"},
      {"two Enters",
       [](std::vector<NodeDef>& nodes) {
         for (NodeDef& node : nodes)
           if (node.name == "while/Merge") node.inputs.push_back("while/Enter_1");
       },
       "'while/Merge': Merge of a loop that has not exactly one Enter and one NextIteration"},
      {"an Exit of something else",
       [](std::vector<NodeDef>& nodes) {
         nodes.push_back(make_node("s", "Switch", {"while/Mul/Enter", "while/LoopCond"}));
         nodes.push_back(make_node("e", "Exit", {"s"}));
       },
       "'e': Exit of a value that is no loop variable"},
      {"a constant into a Merge",
       [](std::vector<NodeDef>& nodes) {
         for (NodeDef& node : nodes)
           if (node.name == "while/Enter") node.attributes["is_constant"] = flag_attribute(true);
       },
       "'while/Enter': Enter of a constant into the Merge 'while/Merge'"},
      {"a second LoopCond", add(make_node("while/second", "LoopCond", {"while/Less"})),
       "'while/LoopCond', 'while/second': one of several LoopConds"},
      {"a cycle that is no loop", replace("while/add", 0, "while/add"),
       "'while/add': is on a cycle that is no loop"},
      {"no frame_name",
       [](std::vector<NodeDef>& nodes) {
         for (NodeDef& node : nodes)
           if (node.name == "while/Enter") node.attributes.clear();
       },
       "'while/Enter': Enter without a frame_name"},
      {"a random number in condition and body",
       [](std::vector<NodeDef>& nodes) {
         nodes.push_back(make_node("while/random", "RandomUniform", {"while/Merge"}));
         for (NodeDef& node : nodes)
           if (node.name == "while/Mul" || node.name == "while/Less")
             node.inputs[1] = "while/random";
       },
       "'while/random': has effects or is random"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.why);
    std::vector<NodeDef> nodes = power_graph();
    one.change(nodes);
    const std::string text = refusal(graph_of(nodes));
    CAPTURE(text);
    CHECK(contains(text, one.expected));
    CHECK(contains(text, "typed.pbtxt"));
  }
}

TEST_CASE("all that cannot be converted is refused in one error") {
  std::vector<NodeDef> nodes = power_graph();
  append(nodes,
         {make_node("s", "RefSwitch", {"limit", "factor"}), make_node("e", "Exit", {"limit"}),
          make_node("both", "Add", {"while/Mul", "limit"})});
  const std::string text = refusal(graph_of(nodes));
  CAPTURE(text);
  for (const char* name : {"'s'", "'e'", "'both'"}) CHECK(contains(text, name));
}

TEST_CASE("values that are dead in some run are refused by name") {
  std::vector<NodeDef> nodes{make_node("x", "Placeholder", {}), make_node("p", "Placeholder", {}),
                             make_node("q", "Placeholder", {}),
                             make_node("s", "Switch", {"x", "p"}),
                             make_node("t", "Switch", {"x", "q"})};
  const auto with = [&](const NodeDef& node, const std::vector<std::string>& fetches = {}) {
    std::vector<NodeDef> more = nodes;
    more.push_back(node);
    return refusal(graph_of(more), fetches);
  };
  CHECK(contains(with(make_node("a", "Add", {"s", "s:1"})),
                 "'a': reads values of both branches of a condition without a Merge"));
  CHECK(contains(with(make_node("a", "Neg", {"s"}), {"a"}),
                 "'a': is fetched, but has a value in one branch of a condition only"));
  CHECK(contains(with(make_node("a", "Neg", {"s"}), {"s:1"}), "'s': is fetched, but has a value"));
  CHECK(contains(with(make_node("a", "Merge", {"s", "t:1"})),
                 "'a': Merge of values of which not exactly one is there"));
  CHECK(contains(with(make_node("a", "Merge", {"s", "s"})),
                 "'a': Merge of values of which not exactly one is there"));
  CHECK(contains(with(make_node("a", "Merge", {"s", "s:1", "t"})),
                 "'a': Merge of values of which not exactly one is there"));
  CHECK(with(make_node("unread", "Neg", {"s"})) == "converted");
  CHECK(contains(with(make_node("a", "Merge", {"s", "s:1"}), {"no"}), "there is no such node"));
  CHECK(contains(refusal(graph_of(power_graph()), {"while/add"}),
                 "'while/add': is fetched, but lies in a loop"));
}

TEST_CASE("graphs whose names do not fit are refused") {
  const auto with = [](std::vector<NodeDef> nodes) {
    nodes.push_back(make_node("x", "Placeholder", {}));
    nodes.push_back(make_node("s", "Switch", {"x", "x"}));
    return refusal(graph_of(std::move(nodes)));
  };
  CHECK(contains(with({make_node("x", "Neg", {})}), "'x': has the name of another node"));
  CHECK(
      contains(with({make_node("a", "Neg", {"y"})}), "'a': reads 'y', and there is no such node"));
  CHECK(contains(with({make_node("a", "Neg", {"^y"})}), "reads '^y'"));
  for (const char* bad : {"", "^", ":1", "x:", "x:a", "x:99999999999", "x:-1"})
    CHECK(contains(with({make_node("a", "Neg", {bad})}), "and there is no such node"));
  CHECK(contains(with({make_node("a", "Neg", {"s:2"})}), "the node has no such output"));
  CHECK(contains(with({make_node("a", "Switch", {"x"})}), "'a': Switch with 1 inputs"));
  CHECK(contains(with({make_node("a", "Merge", {})}), "'a': Merge with 0 inputs"));
  CHECK(contains(with({make_node("a", "Neg", {"b"}), make_node("b", "Neg", {"a"})}),
                 "'a', 'b': is on a cycle that is no loop"));
  CHECK(contains(with({make_node("a", "Neg", {"x", "^a"})}), "'a': is on a cycle"));
}

// ---- size

TEST_CASE("long chains are converted and deep nesting is refused") {
  constexpr size_t kNodes = 100000;
  std::vector<NodeDef> nodes{make_node("x", "Placeholder", {}), make_node("p", "Placeholder", {}),
                             make_node("s", "Switch", {"x", "p"})};
  std::string last = "s:1";
  for (size_t i = 0; i < kNodes; ++i) {
    const std::string name = "n" + std::to_string(i);
    nodes.push_back(i % 2 == 0 ? make_node(name, "Neg", {last})
                               : make_node(name, "Switch", {last, "p"}));
    last = name + (i % 2 == 0 ? "" : ":1");
  }
  nodes.push_back(make_node("m", "Merge", {"s", last}));
  GraphDef converted = graphdef::functionalise(graph_of(nodes));
  CHECK(converted.bodies.at("m/If/then").nodes.size() == kNodes / 2);

  // Conditionals one behind the other: nothing is nested.
  nodes.resize(2);
  last = "x";
  for (size_t i = 0; i < kNodes / 4; ++i) {
    const std::string k = std::to_string(i);
    append(nodes, {make_node("s" + k, "Switch", {last, "p"}), make_node("n" + k, "Neg", {"s" + k}),
                   make_node("m" + k, "Merge", {"s" + k + ":1", "n" + k})});
    last = "m" + k;
  }
  CHECK(count_ops(graphdef::functionalise(graph_of(nodes)).nodes, "If") == kNodes / 4);

  // Each in the other.
  for (const size_t depth : {64, 65, 2000}) {
    nodes.resize(1);
    last = "x";
    for (size_t i = 0; i < depth; ++i) {
      const std::string k = std::to_string(i);
      append(nodes, {make_node("p" + k, "Placeholder", {}),
                     make_node("s" + k, "Switch", {last, "p" + k})});
      last = "s" + k + ":1";
    }
    for (size_t i = depth; i-- > 0;) {
      const std::string k = std::to_string(i);
      nodes.push_back(make_node("m" + k, "Merge", {"s" + k, last}));
      last = "m" + k;
    }
    const std::string text = refusal(graph_of(nodes));
    CAPTURE(text);
    CHECK(contains(text, depth == 64 ? "converted" : "nested deeper than 64"));
  }
}

TEST_CASE("frames in frames are refused when they are too deep") {
  std::vector<NodeDef> nodes{make_node("x", "Placeholder", {})};
  std::string last = "x";
  for (size_t i = 0; i < 20000; ++i) {
    nodes.push_back(make_enter("e" + std::to_string(i), last, "f"));
    last = nodes.back().name;
  }
  const std::string text = refusal(graph_of(nodes));
  CHECK(contains(text, "'e64': is nested deeper than 64"));
}

TEST_CASE("a graph that would grow with the square of its size is refused") {
  constexpr size_t kNodes = 4000;
  std::vector<NodeDef> nodes{make_node("x", "Placeholder", {}), make_node("p", "Placeholder", {}),
                             make_node("s", "Switch", {"x", "p"})};
  std::string chain = "s:1";
  for (size_t i = 0; i < kNodes; ++i) {
    nodes.push_back(make_node("n" + std::to_string(i), "Neg", {chain}));
    chain = nodes.back().name;
  }
  std::string last = "x";
  for (size_t i = 0; i < kNodes; ++i) {
    const std::string k = std::to_string(i);
    append(nodes, {make_node("t" + k, "Switch", {last, "p"}),
                   make_node("a" + k, "Add", {"t" + k + ":1", chain}),
                   make_node("m" + k, "Merge", {"t" + k, "a" + k})});
    last = "m" + k;
  }
  CHECK(contains(refusal(graph_of(nodes)), "needs nodes that too many branches"));
}

TEST_SUITE_END();
