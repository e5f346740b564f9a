// Updates of TensorFlow graphs that an import lost: assignments in branches that only nodes without
// a value wait for were left out in silence, and two nodes of one shared name were two variables.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"

#include "support/error_of.h"
#include "support/graph_def_text.h"
#include "support/imported_models.h"

namespace keel {
namespace {

using namespace keel_test;
using Names = std::vector<std::string>;

std::string update_refusal(const std::string& text, const Names& outputs) {
  return error_of([&] { graphdef::import_graph(parsed_graph_def(text), {.outputs = outputs}); });
}

std::string scalar(const std::string& name, float value) {
  return const_text(name, Tensor::scalar<float>(value));
}

std::string handle(const std::string& name, const NodeAttributes& naming = {},
                   const std::string& type = "DT_FLOAT", const std::string& device = "") {
  NodeAttributes attributes{{"dtype", "type: " + type}, {"shape", "shape {}"}};
  attributes.insert(attributes.end(), naming.begin(), naming.end());
  std::string node = node_text(name, "VarHandleOp", {}, attributes);
  return device.empty() ? node : node.insert(node.find(" op:"), " device: '" + device + "'");
}

std::string assigned_first(const std::string& variable, const std::string& value) {
  return node_text(variable + "/Assign", "AssignVariableOp", {variable, value},
                   {{"dtype", "type: DT_FLOAT"}});
}

std::string switched(const std::string& name, const Names& inputs, const char* type) {
  return node_text(name, "Switch", inputs, {{"T", std::string("type: ") + type}});
}

// TensorFlow 1 writes this for tf.cond(p, lambda: v.assign_add(x), tf.no_op).
std::string conditional_update() {
  const NodeAttributes boolean_type{{"T", "type: DT_BOOL"}};
  return placeholder_text("x", f32, {}) + placeholder_text("p", boolean, {}) + scalar("one", 1) +
         handle("v") + assigned_first("v", "one") + switched("c/Switch", {"p", "p"}, "DT_BOOL") +
         node_text("c/switch_t", "Identity", {"c/Switch:1"}, boolean_type) +
         node_text("c/switch_f", "Identity", {"c/Switch"}, boolean_type) +
         switched("c/v", {"v", "p"}, "DT_RESOURCE") + switched("c/x", {"x", "p"}, "DT_FLOAT") +
         node_text("c/set", "AssignAddVariableOp", {"c/v:1", "c/x:1"}) +
         node_text("c/true", "Identity", {"c/switch_t", "^c/set"}, boolean_type) +
         node_text("c/false", "Identity", {"c/switch_f", "^c/switch_f"}, boolean_type) +
         node_text("c/Merge", "Merge", {"c/false", "c/true"}, boolean_type) +
         node_text("y", "Add", {"x", "x"}, {{"T", "type: DT_FLOAT"}});
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("an assignment in a branch is refused whoever waits for it") {
  const std::string text = conditional_update() + node_text("group", "NoOp", {"^c/set"}) +
                           handle("w") + assigned_first("w", "one") +
                           node_text("step", "AssignAddVariableOp", {"w", "x"}) +
                           node_text("both", "NoOp", {"^group", "^step"});
  for (const char* output : {"c/Merge", "c/set", "group", "both"}) {
    CAPTURE(output);
    const std::string error = update_refusal(text, {"y", output});
    CHECK_MESSAGE(contains(error, "c/set"), error);
  }
  const std::string error = update_refusal(text, {"y", "both"});
  CHECK_MESSAGE(contains(error, "'c/set': runs in a branch"), error);
  CHECK_MESSAGE(contains(error, "assign in every run"), error);
  // Nothing asks for it.
  CHECK(update_refusal(text, {"y", "step"}).empty());
  // It is left out because the user says so.
  const auto model = graphdef::import_graph(parsed_graph_def(text),
                                            {.outputs = {"y", "both"}, .drop_updates = true});
  CHECK(model.update.assignments.empty());
}

TEST_CASE("an assignment in a branch of a branch or behind a pivot is refused") {
  const std::string nested =
      conditional_update() + placeholder_text("q", boolean, {}) +
      switched("c/q", {"q", "p"}, "DT_BOOL") + switched("d/v", {"c/v:1", "c/q:1"}, "DT_RESOURCE") +
      switched("d/x", {"c/x:1", "c/q:1"}, "DT_FLOAT") +
      node_text("d/set", "AssignAddVariableOp", {"d/v:1", "d/x:1"}) +
      node_text("d/true", "Identity", {"d/x:1", "^d/set"}) +
      node_text("d/Merge", "Merge", {"d/x", "d/true"}) + node_text("group", "NoOp", {"^d/Merge"});
  CHECK(contains(update_refusal(nested, {"y", "group"}), "'d/set': runs in a branch"));
  const std::string pivot = conditional_update() +
                            node_text("set", "AssignVariableOp", {"v", "x", "^c/switch_t"}) +
                            node_text("late", "AssignAddVariableOp", {"v", "y", "^set"});
  CHECK(contains(update_refusal(pivot, {"y", "late"}), "'set', 'late': runs in a branch"));
}

TEST_CASE("an assignment in a branch of a function is refused") {
  const std::string text =
      placeholder_text("x", f32, {}) + placeholder_text("p", boolean, {}) + scalar("one", 1) +
      handle("v") + assigned_first("v", "one") +
      node_text("y", "PartitionedCall", {"v", "x", "p"}, {{"f", "func { name: 'f' }"}}) +
      "library { function { signature { name: 'f' input_arg { name: 'h' } input_arg { name: 'a' } "
      "input_arg { name: 'c' } output_arg { name: 'r' } } "
      "node_def { name: 's' op: 'Switch' input: 'a' input: 'c' } "
      "node_def { name: 'set' op: 'AssignVariableOp' input: 'h' input: 's:output_true:0' } "
      "node_def { name: 'n' op: 'Neg' input: 'a' } ret { key: 'r' value: 'n:y:0' } } }";
  const std::string error = update_refusal(text, {"y"});
  CHECK_MESSAGE(contains(error, "'f/set': runs in a branch"), error);
}

namespace {

// A function 'f' of a handle, a number and a condition, with these nodes and the result 'n'.
std::string branched_library(const std::string& nodes) {
  return "library { function { signature { name: 'f' input_arg { name: 'h' } input_arg { name: 'a' "
         "} input_arg { name: 'c' } output_arg { name: 'r' } } " +
         nodes + "node_def { name: 'n' op: 'Neg' input: 'a' } ret { key: 'r' value: 'n:y:0' } } }";
}

// A node of this op that runs in a branch, for a node without a value alone.
std::string in_branch(const std::string& op, const NodeAttributes& attributes = {}) {
  return conditional_update() + switched("c/p", {"p", "p"}, "DT_BOOL") +
         node_text("c/node", op, {"c/v:1", "c/x:1", "c/p:1"}, attributes) +
         node_text("group", "NoOp", {"^c/node"});
}

const NodeAttributes kCallOfF{{"f", "func { name: 'f' }"}};

}  // namespace

TEST_CASE("what a function does that nothing calls is no reason to refuse a graph") {
  const std::string text =
      conditional_update() +
      branched_library(
          "node_def { name: 's' op: 'Switch' input: 'a' input: 'c' } "
          "node_def { name: 'set' op: 'AssignVariableOp' input: 'h' input: 's:output_true:0' } "
          "node_def { name: 'lost' op: 'Exit' input: 'a' } ");
  CHECK(update_refusal(text, {"y"}) == "");
}

TEST_CASE("a call in a branch has the effects of the function") {
  const std::string sets =
      "node_def { name: 'set' op: 'AssignAddVariableOp' input: 'h' input: 'a' } ";
  for (const char* op : {"PartitionedCall", "StatefulPartitionedCall"}) {
    CAPTURE(op);
    const std::string call = in_branch(op, kCallOfF);
    CHECK(contains(update_refusal(call + branched_library(sets), {"y", "group"}),
                   "'c/node': runs in a branch"));
    CHECK(update_refusal(call + branched_library(""), {"y", "group"}) == "");
  }
  // The function may call another one that assigns.
  std::string other = branched_library(sets);
  other.replace(other.find("'f'"), 3, "'g'");
  const std::string calls = branched_library(
      "node_def { name: 'call' op: 'PartitionedCall' input: 'h' input: 'a' input: 'c' "
      "attr { key: 'f' value { func { name: 'g' } } } } ");
  CHECK(contains(
      update_refusal(in_branch("PartitionedCall", kCallOfF) + calls + other, {"y", "group"}),
      "'c/node': runs in a branch"));
}

TEST_CASE("ops in a branch are refused by what they change") {
  for (const char* op : {"ResourceStridedSliceAssign", "StridedSliceAssign", "CountUpTo",
                         "LookupTableInsertV2", "SaveV2", "QueueEnqueueV2", "AssignVariableOp"}) {
    CAPTURE(op);
    CHECK(contains(update_refusal(in_branch(op), {"y", "group"}), "'c/node': runs in a branch"));
  }
  for (const char* op :
       {"QueueSizeV2", "IteratorToStringHandle", "ScatterNdNonAliasingAdd", "StatefulUniform"}) {
    CAPTURE(op);
    CHECK(update_refusal(in_branch(op), {"y", "group"}) == "");
  }
}

TEST_CASE("conditionals of the file are not counted as converted ones") {
  const NodeAttributes branches{{"then_branch", "func { name: 'f' }"},
                                {"else_branch", "func { name: 'f' }"}};
  const std::string text = conditional_update() + switched("c/p", {"p", "p"}, "DT_BOOL") +
                           node_text("c/if", "If", {"c/p:1", "c/v:1", "c/x:1", "c/p:1"}, branches) +
                           node_text("group", "NoOp", {"^c/if"}) + branched_library("");
  CHECK(graphdef::import_graph(parsed_graph_def(text), {.outputs = {"y", "group"}}).conditionals ==
        0);
}

TEST_CASE("what no run reaches and what is only printed in a branch is left out") {
  // The inner branch would need p and its opposite.
  const std::string never = conditional_update() + switched("n/v", {"c/v", "p"}, "DT_RESOURCE") +
                            switched("n/x", {"c/x", "p"}, "DT_FLOAT") +
                            node_text("set", "AssignVariableOp", {"n/v:1", "n/x:1"}) +
                            node_text("w/Assign", "NoOp", {"^set"});
  CHECK(update_refusal(never, {"y", "set"}).empty());
  const std::string printed = conditional_update() +
                              node_text("print", "Print", {"c/x:1", "c/x:1"}) +
                              node_text("group", "NoOp", {"^print"});
  CHECK(update_refusal(printed, {"y", "group"}).empty());
}

namespace {

const NodeAttributes kShared{{"container", "s: ''"}, {"shared_name", "s: 'w'"}};

struct Ran {
  std::vector<double> values;  // of "y" in two steps, in which 10 is added to "a"
  size_t variables = 0;
};

// Reads "b" behind an assignment to "a", which begins with 1.
Ran run_twice(const graphdef::GraphDef& graph) {
  const auto model = graphdef::import_graph(graph, {.outputs = {"y"}});
  Session session(*model.graph, device("ref"));
  Ran ran{.variables = model.weights.size()};
  for (int step = 0; step < 2; ++step)
    ran.values.push_back(session.run(model.update, {model.output("y")}, {})[0].at(0));
  return ran;
}

std::string read_behind_assignment(const std::string& variables) {
  return variables + scalar("one", 1) + scalar("ten", 10) +
         node_text("set", "AssignAddVariableOp", {"a", "ten"}) +
         node_text("y", "ReadVariableOp", {"b", "^set"}, {{"dtype", "type: DT_FLOAT"}});
}

}  // namespace

TEST_CASE("TensorFlow variables of one shared name are one variable") {
  const std::string a = handle("a", kShared), b = handle("b", kShared);
  for (const std::string& first : {assigned_first("a", "one"), assigned_first("b", "one"),
                                   assigned_first("a", "one") + assigned_first("b", "one")}) {
    CAPTURE(first);
    const Ran ran = run_twice(parsed_graph_def(read_behind_assignment(a + b + first)));
    CHECK(ran.values == std::vector<double>{11, 21});
    CHECK(ran.variables == 1);
  }
  // A MetaGraphDef says the initial value of a name that is not the first.
  graphdef::GraphDef graph = parsed_graph_def(read_behind_assignment(a + b));
  graph.variables = {{"b:0", "one", true}};
  CHECK(run_twice(graph).values == std::vector<double>{11, 21});
  // A session of one process calls its default container so.
  const NodeAttributes local{{"container", "s: 'localhost'"}, {"shared_name", "s: 'w'"}};
  CHECK(run_twice(parsed_graph_def(
                      read_behind_assignment(handle("a", local) + b + assigned_first("a", "one"))))
            .variables == 1);
  // The file may have them in another order.
  CHECK(run_twice(parsed_graph_def(read_behind_assignment(b + a + assigned_first("a", "one"))))
            .variables == 1);
}

TEST_CASE("TensorFlow variables of other containers or devices or without a name are apart") {
  const NodeAttributes elsewhere{{"container", "s: 'c'"}, {"shared_name", "s: 'w'"}};
  // TensorFlow calls this ResourceHandle::ANONYMOUS_NAME.
  const NodeAttributes anonymous{{"shared_name", "s: 'cd2c89b7-88b7-44c8-ad83-06c2a9158347'"}};
  const std::string first = assigned_first("a", "one") + assigned_first("b", "one");
  for (const std::string& variables :
       {handle("a", kShared) + handle("b", elsewhere), handle("a") + handle("b"),
        handle("a", anonymous) + handle("b", anonymous), handle("a", kShared) + handle("b"),
        handle("a", kShared, "DT_FLOAT", "/job:ps/task:0") +
            handle("b", kShared, "DT_FLOAT", "/job:ps/task:1")}) {
    CAPTURE(variables);
    const Ran ran = run_twice(parsed_graph_def(read_behind_assignment(variables + first)));
    CHECK(ran.values == std::vector<double>{1, 1});
    CHECK(ran.variables == 2);
  }
}

TEST_CASE("a TensorFlow variable has one device in all of its spellings") {
  const std::string first = assigned_first("a", "one") + assigned_first("b", "one");
  const auto on = [](const std::string& name, const std::string& device) {
    return handle(name, kShared, "DT_FLOAT", device);
  };
  const Names one_each[] = {{"", "/device:CPU:0"},
                            {"/cpu:0", "/device:CPU:0"},
                            {"/device:CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0"},
                            {"/device:gpu:1", "/job:localhost/gpu:1"},
                            {"/job:ps/task:1", "/job:ps/replica:*/task:1/device:CPU:*"}};
  for (const Names& devices : one_each) {
    CAPTURE(devices[0]);
    CAPTURE(devices[1]);
    const Ran ran = run_twice(parsed_graph_def(
        read_behind_assignment(on("a", devices[0]) + on("b", devices[1])) + first));
    CHECK(ran.values == std::vector<double>{11, 21});
    CHECK(ran.variables == 1);
  }
  for (const Names& devices : {Names{"/cpu:0", "/gpu:0"}, {"/job:a/gpu:0", "/job:b"}}) {
    CAPTURE(devices[0]);
    const Ran ran = run_twice(parsed_graph_def(
        read_behind_assignment(on("a", devices[0]) + on("b", devices[1])) + first));
    CHECK(ran.values == std::vector<double>{1, 1});
    CHECK(ran.variables == 2);
  }
  // Another job's devices are no others of this one.
  const std::string elsewhere = on("c", "/job:b/gpu:1") + on("d", "/job:b/gpu:0");
  CHECK(run_twice(
            parsed_graph_def(read_behind_assignment(on("a", "/job:a") + on("b", "/job:a/gpu:0")) +
                             first + elsewhere))
            .values == std::vector<double>{11, 21});
}

TEST_CASE("a TensorFlow variable that may be one of several devices' is refused") {
  const std::string text = handle("a", kShared, "DT_FLOAT", "/gpu:0") + handle("b", kShared) +
                           handle("c", kShared, "DT_FLOAT", "/gpu:1") + assigned_first("a", "one") +
                           assigned_first("b", "one") +
                           node_text("z", "ReadVariableOp", {"a"}, {{"dtype", "type: DT_FLOAT"}});
  const std::string error = update_refusal(read_behind_assignment(text), {"y"});
  CHECK_MESSAGE(contains(error, "variable 'w': its nodes may be one variable or several"), error);
  CHECK_MESSAGE(contains(error, "'a' on '/gpu:0', 'b' on ''"), error);
  CHECK_MESSAGE(contains(error, "the whole device of each node"), error);
  // Nothing asks for the one that leaves it open.
  CHECK(update_refusal(read_behind_assignment(text), {"z"}) == "");
}

TEST_CASE("a TensorFlow reference has its node's name where it has no other") {
  const std::string text =
      variable_text("w", Tensor::scalar<float>(1)) + scalar("ten", 10) +
      node_text("again", "VariableV2", {},
                {{"dtype", "type: DT_FLOAT"}, {"shape", "shape {}"}, {"shared_name", "s: 'w'"}}) +
      node_text("set", "AssignAdd", {"again", "ten"}) +
      node_text("y", "Identity", {"w", "^set"}, {{"T", "type: DT_FLOAT"}});
  const Ran ran = run_twice(parsed_graph_def(text));
  CHECK(ran.values == std::vector<double>{11, 21});
  CHECK(ran.variables == 1);
}

TEST_CASE("a TensorFlow variable of two dtypes is refused where both are needed") {
  const std::string apart = handle("a", kShared) + handle("b", kShared, "DT_DOUBLE") +
                            scalar("one", 1) + assigned_first("a", "one") +
                            node_text("z", "ReadVariableOp", {"a"}, {{"dtype", "type: DT_FLOAT"}});
  CHECK(update_refusal(apart, {"z"}) == "");
  const std::string error = update_refusal(
      read_behind_assignment(handle("a", kShared) + handle("b", kShared, "DT_DOUBLE") +
                             assigned_first("a", "one")),
      {"y"});
  CHECK_MESSAGE(contains(error, "node 'b': is of another dtype than 'a'"), error);
  CHECK_MESSAGE(contains(error, "a shared_name of its own"), error);
}

TEST_SUITE_END();

}  // namespace keel
