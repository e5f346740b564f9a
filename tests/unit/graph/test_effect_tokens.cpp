// Effects of a graph are one chain of tokens, which the builder threads, passes keep, and no user
// sees. The effect of these tests writes down what it was given, so that the order in which a
// program runs them can be compared with the order in which they were built.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/control/step_boundary.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"
#include "keel/keel.h"
#include "keel/ops/queue.h"

#include "runtime_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

std::vector<double> written;

// The built-in ops, and `write_down`, an effect that hands its scalar on.
const OpTable& ops_with_effect() {
  static const OpTable* const kTable = [] {
    auto* table = new OpTable;
    for (const OpDef* op : builtin_ops().all()) table->add(*op);
    table->add({.name = "write_down",
                .input_names = {"x"},
                .infer = [](const InferContext& c) { return std::vector<Type>{c.inputs[0]}; },
                .reference =
                    [](const ReferenceContext& c) {
                      written.push_back(c.inputs[0].at(0));
                      c.outputs[0].set(0, c.inputs[0].at(0));
                    },
                .traits = kEffect});
    return table;
  }();
  return *kTable;
}

Value write_down(Value x) {
  return x.graph().add("write_down", {x}, {}, CallSite::here()).output();
}

std::vector<double> written_by(Graph& graph, const Values& fetches) {
  written.clear();
  Session session(graph, device("ref"));
  session.run(fetches);
  return written;
}

Value scalar(Graph& graph, float value) { return graph.constant(Tensor::scalar<float>(value)); }

TEST_CASE("an effect takes the token of the one before it") {
  Graph g;
  const ElementSpec spec{{{"x", {f32, {2}}}, {"y", {u8, {2}}}}};
  const Values first = dequeue(g, "a", spec);
  const Values second = dequeue(g, "b", spec);
  CHECK(first.size() == 2);
  const Node& a = first[0].node();
  const Node& b = second[0].node();
  CHECK(a.ordered());
  CHECK(a.data_inputs().empty());
  CHECK(a.data_types().size() == 2);
  REQUIRE(a.types().size() == 3);
  CHECK(a.type(2) == Type{DType::kToken, {}});
  CHECK(a.input(0).node().is(OpRole::kToken));
  CHECK(b.input(0) == a.output(2));
  CHECK(g.token() == b.output(2));
  const Value x = relu(first[0]);
  CHECK_FALSE(x.node().ordered());
  CHECK(g.has_effects());
  verify(g);
}

TEST_CASE("a graph without effects has no token") {
  Graph g;
  g.set_outputs({neg(g.input("x", f32, {2}))});
  CHECK_FALSE(g.has_effects());
  CHECK(g.size() == 2);
  g.token();
  CHECK_FALSE(g.has_effects());
}

TEST_CASE("an effect of a body on a value from outside happens in each turn") {
  Graph g(ops_with_effect());
  const Value x = scalar(g, 5);
  const auto note = [&] { return emit("write_down", {Operand(x)}, CallSite::here()); };
  const Value turns = while_loop(
      {scalar(g, 0)}, [](const Values& v) { return less(v[0], 3.0f); },
      [&](const Values& v) { return Values{v[0] + note() / x}; }, {.trip_count = 3})[0];
  CHECK(written_by(g, {turns}) == std::vector<double>{5, 5, 5});
  const Value chosen = cond(
      less(x, 0.0f), {}, [&](const Values&) { return Values{note()}; },
      [&](const Values&) { return Values{neg(x)}; })[0];
  CHECK(written_by(g, {chosen}).empty());
}

TEST_CASE("control ops with effects in their bodies are links of the chain") {
  Graph g(ops_with_effect());
  const Value before = write_down(scalar(g, 1));
  const Value x = scalar(g, 2);
  const Values looped = while_loop(
      {x}, [](const Values& v) { return less(v[0], 4.0f); },
      [](const Values& v) { return Values{write_down(v[0]) + 1.0f}; });
  REQUIRE(looped.size() == 1);
  const Node& loop = looped[0].node();
  CHECK(loop.ordered());
  CHECK(loop.inputs().back() == before.node().output(1));
  const Values chosen = cond(
      less(x, 3.0f), {x}, [](const Values& v) { return Values{write_down(v[0] * 5.0f)}; },
      [](const Values& v) { return Values{write_down(v[0] * 7.0f)}; });
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0].node().inputs().back() == loop.output(2));
  const Value after = write_down(scalar(g, 9));
  const Values plain = cond(
      less(x, 3.0f), {x}, [](const Values& v) { return v; },
      [](const Values& v) { return Values{-v[0]}; });
  CHECK_FALSE(plain[0].node().ordered());
  verify(g);
  // Fetched in another order, they happen in the order of building; each once.
  CHECK(written_by(g, {after, chosen[0], looped[0], before}) ==
        std::vector<double>{1, 2, 3, 10, 9});
}

TEST_CASE("a program has those effects of a model whose results it uses") {
  Graph g(ops_with_effect());
  const Value a = write_down(scalar(g, 1));
  const Value b = write_down(scalar(g, 2));
  const Value c = write_down(scalar(g, 3));
  CHECK(written_by(g, {c, a}) == std::vector<double>{1, 3});
  CHECK(written_by(g, {b}) == std::vector<double>{2});
}

TEST_CASE("an effect whose result nothing reads happens all the same once it is in a body") {
  Graph g(ops_with_effect());
  const Values looped = while_loop(
      {scalar(g, 1)}, [](const Values& v) { return less(v[0], 4.0f); },
      [](const Values& v) {
        write_down(v[0]);
        const Values inner = cond(
            less(v[0], 2.0f), {v[0]},
            [](const Values& w) {
              write_down(w[0] * 10.0f);
              return w;
            },
            [](const Values& w) { return w; });
        static_cast<void>(inner);
        return Values{v[0] + 1.0f};
      });
  CHECK(written_by(g, looped) == std::vector<double>{1, 10, 2, 3});
}

TEST_CASE("passes keep the order of effects") {
  Graph g(ops_with_effect());
  const Value x = g.state("x", ones({}));
  // The second effect's operand is there first, and the product's epilogue waits for the first's.
  const Value late = write_down(x + 3.0f);
  const Value early = write_down(x);
  const Value product = matmul(broadcast_to(x, {4, 4}), broadcast_to(x, {4, 4}));
  const Value y = product * early + late;
  g.set_outputs({y});
  const auto everything = [](const Node&) { return Support{true, ""}; };
  for (const auto& pass : std::vector<std::function<std::unique_ptr<Graph>(const Graph&)>>{
           [](const Graph& graph) { return fold(graph); },
           [](const Graph& graph) { return cse(graph); },
           [&](const Graph& graph) { return fuse(graph, everything); }}) {
    const auto result = pass(g);
    verify(*result);
    std::vector<const Node*> effects;
    for (const Node& node : result->nodes()) {
      if (node.has(kEffect)) effects.push_back(&node);
    }
    REQUIRE(effects.size() == 2);
    CHECK(effects[0]->inputs().back().node().is(OpRole::kToken));
    CHECK(effects[1]->inputs().back() == effects[0]->output(1));
    CHECK(effects[1]->input(0).node().is(OpRole::kState));
  }
  CHECK(written_by(g, {y}) == std::vector<double>{4, 1});
}

TEST_CASE("tokens are printed and read again as they were") {
  Graph g(ops_with_effect());
  const Value a = write_down(scalar(g, 1));
  const Value b = write_down(scalar(g, 2));
  g.set_outputs({a, b});
  const std::string text = print_graph(g);
  CHECK(contains(text, "token() : token[]"));
  const auto again = parse_graph(text, ops_with_effect());
  CHECK(print_graph(*again) == text);
  verify(*again);
}

TEST_CASE("tokens out of place are refused") {
  const auto refused = [](const std::string& nodes) {
    return error_of([&] { parse_graph("graph {\n" + nodes + "}\n", ops_with_effect()); });
  };
  const std::string begin =
      "%0 = token() : token[]\n%1 = input {name=\"x\", type=[f32[]]} : f32[]\n"
      "%2 = write_down(%1, %0) : f32[], token[]\n";
  CHECK(refused("%0 = token() : token[]\n") == "");
  CHECK(contains(refused("%0 = token() : token[]\n%1 = token() : token[]\n"), "one beginning"));
  CHECK(contains(refused("%0 = token() : token[]\n%1 = neg(%0) : token[]\n"),
                 "a value with elements"));
  CHECK(contains(refused("%0 = token() : token[]\noutputs (%0)\n"), "a value with elements"));
  Graph g(ops_with_effect());
  const Value a = write_down(scalar(g, 1));
  const Value first = a.node().output(1);
  write_down(a);
  CHECK(contains(error_of([&] {
                   g.add("write_down", {a, first}, {}, CallSite::here());
                 }),
                 "the one behind the effect before it"));
  CHECK(contains(error_of([&] { neg(first); }), "a value with elements"));
  CHECK(contains(error_of([&] { g.set_outputs({first}); }), "a value with elements"));
  CHECK(contains(error_of([&] {
                   while_loop(
                       {first}, [](const Values&) { return Value(); },
                       [](const Values& v) { return v; });
                 }),
                 "token"));
}

TEST_CASE("no gradient passes a loop with effects in its body") {
  Graph g(ops_with_effect());
  const Value w = g.state("w", ones({}));
  const Values looped = while_loop(
      {w}, [](const Values& v) { return less(v[0], 4.0f); },
      [](const Values& v) {
        write_down(v[0]);
        return Values{v[0] * 2.0f};
      },
      {.trip_count = 2});
  CHECK(contains(error_of([&] { gradients(looped[0], {w}); }), "has effects in its body"));
}

TEST_CASE("a step boundary comes behind the effects of its step") {
  Graph g;
  const Value x = dequeue(g, "a", {{{"x", {f32, {}}}}})[0];
  const Node& boundary = add_step_boundary(g, less(x, 1.0f), CallSite::here());
  CHECK(boundary.ordered());
  CHECK(boundary.inputs().back() == x.node().output(1));
  CHECK(boundary.data_inputs().size() == 1);
  CHECK(described_step(g, "test", {}).stop_when == boundary.input(0));
}

}  // namespace

TEST_SUITE_END();
