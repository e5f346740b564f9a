// Variables of TensorFlow graphs in the order of a step: what is read in front of an assignment and
// behind it, through nodes that hand references and handles on. All values are worked out by hand.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"

#include "support/error_of.h"
#include "support/graph_def_text.h"
#include "unit/ops/graphdef/text_import_for_tests.h"

TEST_SUITE_BEGIN("graphdef");

namespace keel {
namespace {

using namespace keel_test;

std::string scalar(const std::string& name, float value) {
  return const_text(name, Tensor::scalar<float>(value));
}

std::string handle(const std::string& name, float value) {
  return node_text(name, "VarHandleOp", {}, {{"dtype", "type: DT_FLOAT"}, {"shape", "shape {}"}}) +
         scalar(name + "/initial_value", value) +
         node_text(name + "/Assign", "AssignVariableOp", {name, name + "/initial_value"},
                   {{"dtype", "type: DT_FLOAT"}});
}

std::string reference(const std::string& name, float value) {
  return variable_text(name, Tensor::scalar<float>(value));
}

std::string read(const std::string& name, const std::vector<std::string>& inputs) {
  return node_text(name, "ReadVariableOp", inputs, {{"dtype", "type: DT_FLOAT"}});
}

struct Ran {
  std::vector<double> values;     // of the outputs, in each step
  std::vector<double> variables;  // of `w` behind each step
};

// Two steps of a graph of scalars without inputs.
Ran run(const std::string& text, const std::vector<std::string>& outputs) {
  Ran ran;
  const auto model = import_text(text, {.outputs = outputs});
  Session session(*model.graph, device("ref"));
  Values fetches;
  for (const auto& output : model.outputs) fetches.push_back(output.second);
  for (int step = 0; step < 2; ++step) {
    for (const Tensor& value : session.run(model.update, fetches, {}))
      ran.values.push_back(value.at(0));
    ran.variables.push_back(session.read(model.graph->find_state("w")).at(0));
  }
  return ran;
}

void check(const Ran& ran, const std::vector<double>& values,
           const std::vector<double>& variables) {
  CHECK(ran.values == values);
  CHECK(ran.variables == variables);
}

TEST_CASE("GraphDef variables: a read behind an assignment gives what was assigned") {
  const std::string w =
      handle("w", 1) + scalar("ten", 10) + node_text("set", "AssignAddVariableOp", {"w", "ten"});
  check(run(w + read("late", {"w", "^set"}), {"late"}), {11, 21}, {11, 21});
  // The handle comes through nodes that only hand it on.
  const std::string twice = node_text("a", "Identity", {"w"}) + node_text("b", "Identity", {"a"});
  check(run(w + twice + read("late", {"b", "^set"}), {"late"}), {11, 21}, {11, 21});
  check(run(w + node_text("a", "Identity", {"w", "^set"}) + read("late", {"a"}), {"late"}),
        {11, 21}, {11, 21});
  check(
      run(w + node_text("n", "IdentityN", {"ten", "w"}) + read("late", {"n:1", "^set"}), {"late"}),
      {11, 21}, {11, 21});
  // It is assigned through one, too.
  check(run(handle("w", 1) + scalar("ten", 10) + node_text("a", "Identity", {"w"}) +
                node_text("set", "AssignVariableOp", {"a", "ten"}) + read("late", {"w", "^set"}),
            {"late"}),
        {10, 10}, {10, 10});
  // Control edges go through nodes without a value, and through values.
  check(run(w + node_text("n", "NoOp", {"^set"}) + node_text("m", "NoOp", {"^n"}) +
                node_text("c", "Identity", {"ten", "^m"}) + read("late", {"w", "^c"}),
            {"late"}),
        {11, 21}, {11, 21});
}

TEST_CASE("GraphDef variables: a read in front of an assignment or without an order is the old") {
  const std::string w = handle("w", 1) + scalar("ten", 10);
  check(run(w + read("early", {"w"}) +
                node_text("set", "AssignAddVariableOp", {"w", "ten", "^early"}),
            {"early", "set"}),
        {1, 11}, {11, 21});
  check(run(w + read("beside", {"w"}) + node_text("set", "AssignAddVariableOp", {"w", "ten"}),
            {"beside", "set"}),
        {1, 11}, {11, 21});
  // A value that was read before keeps its value behind the assignment.
  check(run(w + read("early", {"w"}) + node_text("set", "AssignVariableOp", {"w", "ten"}) +
                node_text("y", "Neg", {"early", "^set"}),
            {"y"}),
        {-1, -10}, {10, 10});
}

TEST_CASE("GraphDef variables: a reference is what it refers to when it is used") {
  const std::string w = reference("w", 1) + scalar("ten", 10);
  const std::string set = node_text("set", "AssignAdd", {"w", "ten"}, {{"use_locking", "b: true"}});
  check(run(w + set + node_text("late", "Identity", {"w", "^set"}), {"late"}), {11, 21}, {11, 21});
  // An average of the new value, as an optimizer with averages computes it.
  check(run(w + set + node_text("y", "Neg", {"w/read", "^set"}), {"y"}), {-11, -21}, {11, 21});
  // An assignment gives the variable, which later ones change.
  check(run(w + set + node_text("more", "AssignSub", {"set", "one"}) + scalar("one", 1) +
                node_text("y", "Mul", {"set", "one", "^more"}),
            {"y", "set", "more"}),
        {10, 11, 10, 19, 20, 19}, {10, 19});
  // A copy is taken when it is made.
  check(run(w + set + node_text("copy", "Neg", {"w"}) + node_text("y", "Neg", {"copy", "^set"}),
            {"y"}),
        {1, 11}, {11, 21});
}

TEST_CASE("GraphDef variables: assignments one behind the other") {
  const std::string w = handle("w", 1) + scalar("ten", 10) + scalar("two", 2);
  check(
      run(w + node_text("set", "AssignVariableOp", {"w", "ten"}) + read("between", {"w", "^set"}) +
              node_text("more", "AssignAddVariableOp", {"w", "two", "^between"}) +
              read("late", {"w", "^more"}),
          {"between", "late"}),
      {10, 12, 10, 12}, {12, 12});
  const std::string unordered = node_text("set", "AssignVariableOp", {"w", "ten"}) +
                                node_text("a", "Identity", {"w"}) +
                                node_text("more", "AssignAddVariableOp", {"a", "two"});
  const std::string error = import_refusal(w + unordered, {.outputs = {"set", "more"}});
  CHECK(contains(error, "another node assigns to 'w' in the same step"));
  CHECK(contains(error, "set"));
  CHECK(contains(error, "more"));
  // The memory of an optimizer is assigned to as well.
  const std::string momentum = reference("w", 1) + reference("m", 4) + scalar("one", 1) +
                               scalar("half", 0.5f) +
                               node_text("up", "ApplyMomentum", {"w", "m", "one", "one", "half"}) +
                               node_text("late", "Identity", {"m/read", "^up"});
  check(run(momentum, {"late"}), {3, 2.5}, {-2, -4.5});
}

TEST_CASE("GraphDef variables: branches see what was assigned in front of them") {
  const std::string text =
      handle("w", 1) + scalar("ten", 10) + node_text("set", "AssignAddVariableOp", {"w", "ten"}) +
      const_text("p", Tensor::full(boolean, {}, 1)) +
      node_text("s", "Switch", {"w", "p", "^set"}, {{"T", "type: DT_RESOURCE"}}) +
      node_text("t", "Switch", {"ten", "p"}, {{"T", "type: DT_FLOAT"}}) + read("r", {"s:1"}) +
      node_text("n", "Neg", {"t"}) + node_text("y", "Merge", {"n", "r"});
  check(run(text, {"y"}), {11, 21}, {11, 21});
}

TEST_CASE("GraphDef variables: handles that cannot be told are refused where it matters") {
  const std::string library =
      "library { function { signature { name: 'f' input_arg { name: 'a' } output_arg { name: 'r' } "
      "} ret { key: 'r' value: 'a' } } }";
  const std::string text =
      handle("w", 1) + scalar("ten", 10) +
      node_text("call", "PartitionedCall", {"w"}, {{"f", "func { name: 'f' }"}}) +
      node_text("set", "AssignAddVariableOp", {"w", "ten"}) + read("late", {"call", "^set"}) +
      library;
  CHECK(contains(import_refusal(text, {.outputs = {"late"}}),
                 "node 'late': reads a variable that cannot be told"));
  CHECK(contains(import_refusal(scalar("ten", 10) + node_text("set", "AssignAdd", {"ten", "ten"}),
                                {.outputs = {"set"}}),
                 "what it assigns to is no variable"));
}

TEST_CASE("GraphDef variables: what only prints or checks waits for assignments in its operands") {
  const std::string w = reference("w", 10) + scalar("one", 1) + scalar("x", 1) +
                        node_text("a", "AssignAdd", {"w", "one"});
  const std::string printed = node_text("p", "Print", {"x", "a"});
  check(run(w + printed + node_text("y", "Add", {"w", "p"}), {"y"}), {12, 13}, {11, 12});
  check(run(w + printed, {"p"}), {1, 1}, {11, 12});
  const std::string asserted = const_text("t", Tensor::full(boolean, {}, 1)) +
                               node_text("c", "Assert", {"t", "a"}) +
                               node_text("y", "Identity", {"w", "^c"});
  check(run(w + asserted, {"y"}), {11, 12}, {11, 12});
  // Nodes of strings have no rules, and are not needed for the order.
  check(run(w + node_text("s", "AsString", {"a"}) + node_text("j", "StringJoin", {"s", "s"}) +
                node_text("p", "Print", {"x", "j"}) + node_text("y", "Add", {"w", "p"}),
            {"y"}),
        {12, 13}, {11, 12});
  // Assignments behind assignments, and values that others need as well.
  check(run(w + scalar("two", 2) + node_text("m", "Mul", {"a", "two"}) +
                node_text("b", "AssignSub", {"w", "m", "^m"}) + node_text("n", "Neg", {"b"}) +
                node_text("p", "Print", {"x", "n", "m"}) + node_text("y", "Add", {"w", "p"}),
            {"y", "m"}),
        {-10, 22, 11, -20}, {-11, 10});
  const auto dropped = graphdef::import_graph(
      graphdef::parse_graph_def(w + printed, "g.pbtxt", graphdef::FileKind::kGraph),
      {.outputs = {"p"}, .drop_updates = true});
  CHECK(dropped.update.assignments.empty());
}

TEST_CASE("GraphDef variables: an assignment of another shape is refused by its name") {
  const std::string v = variable_text("v", Tensor::of<float>({3}, {1, 2, 3}));
  const std::string w = variable_text("w", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const std::string two = const_text("two", Tensor::of<float>({2}, {1, 2}));
  const std::string three = const_text("three", Tensor::of<float>({3}, {1, 2, 3}));
  const std::string six = const_text("six", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const auto refused = [&](const std::string& text, const std::string& why) {
    const std::string error =
        import_refusal(v + w + two + three + six + scalar("one", 1) + text, {.outputs = {"set"}});
    CAPTURE(error);
    CHECK(contains(error, "set"));
    CHECK(contains(error, why));
  };
  refused(node_text("set", "Assign", {"v", "two"}), "[2]");
  refused(node_text("set", "Assign", {"v", "two"}, {{"validate_shape", "b: false"}}), "[2]");
  refused(node_text("set", "AssignAdd", {"v", "one"}), "its operand 1 is of the shape []");
  refused(node_text("set", "AssignSub", {"w", "three"}), "its operand 1 is of the shape [3]");
  refused(node_text("set", "ApplyGradientDescent", {"w", "one", "three"}),
          "its operand 2 is of the shape [3]");
  refused(node_text("set", "ApplyGradientDescent", {"w", "three", "six"}), "has to be a scalar");
  refused(node_text("set", "ApplyMomentum", {"w", "v", "one", "six", "one"}),
          "its operand 1 is of the shape [3]");
  import_text(v + three + scalar("one", 1) +
                  node_text("set", "ApplyGradientDescent", {"v", "one", "three"}),
              {.outputs = {"set"}});
}

TEST_CASE("GraphDef variables: rows are put in place of others") {
  const std::string text = variable_text("w", Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})) +
                           const_text("i", Tensor::of<int32_t>({3}, {0, 2, 0})) +
                           const_text("rows", Tensor::of<float>({3, 2}, {70, 80, 7, 8, 9, 10})) +
                           node_text("y", "ScatterUpdate", {"w", "i", "rows"}) +
                           node_text("n", "VariableShape", {"w"});
  const auto model = import_text(text, {.outputs = {"y", "n"}});
  Session session(*model.graph, device("ref"));
  const auto got = session.run({model.output("y"), model.output("n")}, {});
  const double expected[] = {9, 10, 3, 4, 7, 8};
  for (int64_t i = 0; i < 6; ++i) CHECK(got[0].at(i) == expected[i]);
  CHECK(got[1].at(0) == 3);
  CHECK(got[1].at(1) == 2);
}

TEST_CASE("GraphDef variables: the initial value is found behind an identity") {
  const std::string text =
      node_text("w", "VarHandleOp") + node_text("a", "Identity", {"w"}) + scalar("five", 5) +
      node_text("i", "AssignVariableOp", {"a", "five"}) + node_text("saved", "RestoreV2") +
      node_text("restore", "AssignVariableOp", {"w", "saved"}) + read("y", {"a"});
  CHECK(import_text(text, {.outputs = {"y"}}).weights.at("w").at(0) == 5);
}

TEST_CASE("GraphDef variables: an initial value computed from another variable's") {
  const auto slot = [](const std::string& name, const std::string& value) {
    return node_text(name, "VariableV2") + node_text(name + "/Assign", "Assign", {name, value});
  };
  const std::string w = reference("w", 3) + scalar("two", 2);
  const std::string twice = node_text("m", "Mul", {"w/read", "two"}) + slot("u", "m");
  // The outputs read w/read as well, and see the assignment.
  const auto model = import_text(w + twice + node_text("a", "AssignAdd", {"w", "two"}) +
                                     node_text("y", "Add", {"w/read", "u", "^a"}),
                                 {.outputs = {"y", "a"}});
  CHECK(model.weights.at("u").at(0) == 6);
  Session session(*model.graph, device("ref"));
  CHECK(session.run(model.update, {model.output("y")}, {})[0].at(0) == 11);
  // Through a resource, and from one variable to the next.
  const std::string v = handle("v", 5) + read("r", {"v"});
  const auto chain =
      import_text(v + slot("s", "r") + slot("t", "n") + node_text("n", "Neg", {"s"}) +
                      slot("same", "t") + node_text("y", "Add", {"same", "t"}),
                  {.outputs = {"y"}});
  CHECK(chain.weights.at("t").at(0) == -5);
  CHECK(chain.weights.at("same").at(0) == -5);
  CHECK(contains(import_refusal(slot("p", "q") + slot("q", "p") + node_text("y", "Neg", {"p"}),
                                {.outputs = {"y"}}),
                 "computed from itself"));
}

TEST_CASE("GraphDef variables: an initial value behind a RefSwitch") {
  // As initialized_value() makes it for the slots of averages.
  const std::pair<std::string, std::string> reference{"T", "type: DT_FLOAT_REF"};
  const std::string text =
      variable_text("w", Tensor::scalar<float>(3)) + node_text("v", "VariableV2") +
      node_text("is", "IsVariableInitialized", {"w"}) +
      node_text("s", "RefSwitch", {"w", "is"}, {reference}) + node_text("r", "Identity", {"s:1"}) +
      node_text("i", "Switch", {"w/initial_value", "is"}) + node_text("m", "Merge", {"i", "r"}) +
      node_text("v/Assign", "Assign", {"v", "m"}) + node_text("y", "Add", {"v", "w/read"});
  CHECK(import_text(text, {.outputs = {"y"}}).weights.at("v").at(0) == 3);
}

// A loop of three turns whose sum adds the variable in each: sum begins with 0.
std::string loop_text(const std::string& variable, const std::string& in_body) {
  const auto enter = [](const std::string& name, const std::string& input, bool constant) {
    return node_text(
        name, "Enter", {input},
        {{"frame_name", "s: 'loop'"}, {"is_constant", constant ? "b: true" : "b: false"}});
  };
  return const_text("zero", Tensor::scalar<float>(0)) +
         const_text("three", Tensor::scalar<float>(3)) +
         const_text("unit", Tensor::scalar<float>(1)) + enter("i/in", "zero", false) +
         enter("sum/in", "zero", false) + enter("n/in", "three", true) +
         enter("unit/in", "unit", true) + enter("v/in", variable, true) +
         node_text("i", "Merge", {"i/in", "i/next"}) +
         node_text("sum", "Merge", {"sum/in", "sum/next"}) +
         node_text("less", "Less", {"i", "n/in"}) + node_text("more", "LoopCond", {"less"}) +
         node_text("i/s", "Switch", {"i", "more"}) + node_text("sum/s", "Switch", {"sum", "more"}) +
         node_text("i/add", "Add", {"i/s:1", "unit/in"}) + in_body +
         node_text("i/next", "NextIteration", {"i/add"}) +
         node_text("sum/next", "NextIteration", {"sum/add"}) + node_text("y", "Exit", {"sum/s"});
}

TEST_CASE("GraphDef variables: a loop reads what was assigned in front of it") {
  const std::string w = handle("w", 1) + scalar("ten", 10);
  const std::string set = node_text("set", "AssignAddVariableOp", {"w", "ten"});
  // The loop comes behind the assignment, and the entry of the handle does not say so.
  const std::string turn =
      read("r", {"v/in", "^late/in"}) + node_text("sum/add", "Add", {"sum/s:1", "r"});
  const std::string late = node_text("late", "Identity", {"ten", "^set"}) +
                           node_text("late/in", "Enter", {"late"},
                                     {{"frame_name", "s: 'loop'"}, {"is_constant", "b: true"}});
  check(run(w + set + late + loop_text("w", turn), {"y"}), {33, 63}, {11, 21});
  const std::string error = import_refusal(
      w + loop_text("w", node_text("set", "AssignAddVariableOp", {"v/in", "unit/in"}) +
                             node_text("sum/add", "Add", {"sum/s:1", "unit/in", "^set"})),
      {.outputs = {"y"}});
  CHECK(contains(error, "node 'set': assigns to a variable inside of a loop"));
}

}  // namespace
}  // namespace keel

TEST_SUITE_END();
