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

TEST_SUITE_BEGIN("graphdef");

namespace keel {
namespace {

using namespace keel_test;

graphdef::ImportedModel import_text(const std::string& text,
                                    const std::vector<std::string>& outputs) {
  return graphdef::import_graph(
      graphdef::parse_graph_def(text, "g.pbtxt", graphdef::FileKind::kGraph), {.outputs = outputs});
}

std::string refusal(const std::string& text, const std::vector<std::string>& outputs) {
  return error_of([&] { import_text(text, outputs); });
}

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
  const auto model = import_text(text, outputs);
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
  const std::string error = refusal(w + unordered, {"set", "more"});
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
  CHECK(contains(refusal(text, {"late"}), "node 'late': reads a variable that cannot be told"));
  CHECK(
      contains(refusal(scalar("ten", 10) + node_text("set", "AssignAdd", {"ten", "ten"}), {"set"}),
               "what it assigns to is no variable"));
}

TEST_CASE("GraphDef variables: rows are put in place of others") {
  const std::string text = variable_text("w", Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})) +
                           const_text("i", Tensor::of<int32_t>({3}, {0, 2, 0})) +
                           const_text("rows", Tensor::of<float>({3, 2}, {70, 80, 7, 8, 9, 10})) +
                           node_text("y", "ScatterUpdate", {"w", "i", "rows"}) +
                           node_text("n", "VariableShape", {"w"});
  const auto model = import_text(text, {"y", "n"});
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
  CHECK(import_text(text, {"y"}).weights.at("w").at(0) == 5);
}

}  // namespace
}  // namespace keel

TEST_SUITE_END();
