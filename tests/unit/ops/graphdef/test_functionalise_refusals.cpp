// Version 1 control flow that cannot be converted: each reason with the nodes' names, and graphs
// whose size is the difficulty.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/ops/exchange/graphdef/control_flow/functionalise.h"

#include "ops/graphdef/typed_control_flow_for_tests.h"
#include "support/error_of.h"

using namespace keel_test;
namespace graphdef = keel::graphdef;

TEST_SUITE_BEGIN("graphdef");

namespace {

std::string conversion_refusal(const GraphDef& graph,
                               const std::vector<std::string>& fetches = {}) {
  try {
    graphdef::functionalise(graph, fetches);
  } catch (const keel::Error& error) {
    return error.what();
  }
  return "converted";
}

}  // namespace

TEST_CASE("reference forms of control flow are refused by name") {
  std::vector<NodeDef> nodes{make_node("x", "Placeholder", {}), make_node("p", "Placeholder", {}),
                             make_node("r", "RefSwitch", {"x", "p"}),
                             make_node("s", "Switch", {"x", "p"}),
                             make_node("t", "RefMerge", {"r", "r:1"})};
  nodes[3].attributes["T"] = {.kind = AttrValue::Kind::kType, .ints = {101}};
  const std::string text = conversion_refusal(graph_of(nodes));
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
    const std::string text = conversion_refusal(graph_of(nodes));
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
  const std::string text = conversion_refusal(graph_of(nodes));
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
    return conversion_refusal(graph_of(more), fetches);
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
  CHECK(contains(conversion_refusal(graph_of(power_graph()), {"while/add"}),
                 "'while/add': is fetched, but lies in a loop"));
}

TEST_CASE("graphs whose names do not fit are refused") {
  const auto with = [](std::vector<NodeDef> nodes) {
    nodes.push_back(make_node("x", "Placeholder", {}));
    nodes.push_back(make_node("s", "Switch", {"x", "x"}));
    return conversion_refusal(graph_of(std::move(nodes)));
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
  CHECK(graphdef::functionalise(graph_of(nodes)).bodies.size() == kNodes / 2);

  // Each in the other.
  for (const size_t depth : {64u, 65u, 2000u}) {
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
    const std::string text = conversion_refusal(graph_of(nodes));
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
  const std::string text = conversion_refusal(graph_of(nodes));
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
  CHECK(contains(conversion_refusal(graph_of(nodes)), "needs nodes that too many branches"));
}

TEST_SUITE_END();
