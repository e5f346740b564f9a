#include <rapidcheck.h>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/fuse_clusters.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/matmul.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/reduce.h"
#include "keel/ops/slice.h"

#include "support/fusing.h"
#include "support/random_graph.h"

TEST_SUITE_BEGIN("graph");

namespace {

using keel::FuseReport;
using keel::Graph;
using keel::Node;
using keel::Shape;
using keel::Support;
using keel::Tensor;
using keel::Value;
using keel::Values;
using keel_test::count_op;
using keel_test::fused_clusters;
using keel_test::reports;

Support nothing(const Node&) { return {.supported = false, .reason = "too wide"}; }

const Node& fused_node(const Graph& g) { return keel_test::only_node(g, "fused"); }

}  // namespace

TEST_CASE("fuse makes one node of a chain") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 8});
  const Value b = g.input("b", keel::f32, {8});
  g.set_outputs({keel::tanh((x + b) * 0.5f)});
  const auto result = fused_clusters(g);
  const Node& node = fused_node(*result);
  CHECK(result->size() == 3);  // the scalar moved into the body
  REQUIRE(node.inputs().size() == 2);
  CHECK(node.bodies()[0]->inputs()[1].type() == keel::Type{keel::f32, Shape{8}});
  CHECK(count_op(*node.bodies()[0], "constant") == 1);
  CHECK(node.type() == keel::Type{keel::f32, Shape{4, 8}});
  CHECK(result->outputs()[0].node().op_name() == "fused");
}

TEST_CASE("fuse leaves single nodes as they are") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  g.set_outputs({keel::sum(keel::exp(x)), keel::matmul(keel::neg(x), x)});
  const auto result = fused_clusters(g);
  CHECK(count_op(*result, "fused") == 0);
  CHECK(result->size() == g.size());
}

TEST_CASE("fuse keeps a constant that is not only read by clusters") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4});
  const Value c = g.constant(Tensor::scalar(2.0f));
  const Value table = g.constant(Tensor::of<float>(Shape{4}, {1, 2, 3, 4}));
  g.set_outputs({keel::exp(x * c) + table, c});
  const auto result = fused_clusters(g);
  CHECK(count_op(*result, "constant") == 2);
  CHECK(fused_node(*result).inputs().size() == 2);
}

TEST_CASE("fuse gives what is read outside as outputs") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4});
  const Value w = g.state("w", {.type = {keel::f32, Shape{4}}});
  const Value a = x * 3;
  const Value b = keel::exp(a);
  const Value c = b - w;
  g.set_outputs({a, keel::sum(b)});
  g.add_update(w, c);
  const auto result = fused_clusters(g);
  const Node& node = fused_node(*result);
  CHECK(node.types().size() == 3);
  CHECK(result->updates()[0].next.node().op_name() == "fused");
  CHECK(result->updates()[0].state.node().op_name() == "state");
  CHECK(node.inputs().size() == 2);
}

TEST_CASE("fuse does not close a cycle") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  const Value a = keel::exp(x);
  const Value product = keel::matmul(a, a);  // reads a, and b reads both
  const Value b = a + product;
  g.set_outputs({b * 2});
  FuseReport report;
  const auto result = fused_clusters(g, &report);
  CHECK(count_op(*result, "exp") == 1);
  CHECK(count_op(*result, "fused") == 1);
  CHECK(reports(report, "%1 (exp) -> %3 (add): %2 (matmul) reads it too, and first"));
}

TEST_CASE("fuse merges users on one level through what they share") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4});
  const Value shared = keel::exp(x);
  g.set_outputs({keel::neg(shared), keel::abs(shared)});
  const auto result = fused_clusters(g);
  const Node& node = fused_node(*result);
  CHECK(node.bodies()[0]->nodes().size() == 4);
  CHECK(node.types().size() == 2);
}

TEST_CASE("fuse lets a cluster's value be read later outside") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  const Value pre = x + 1;
  const Value act = keel::maximum(pre, 0);
  const Value product = keel::matmul(act, x);
  // As in a backward pass: the forward cluster's inner value is read behind the product.
  g.set_outputs({keel::select(keel::greater(pre, 0), product, 0)});
  const auto result = fused_clusters(g);
  CHECK(count_op(*result, "fused") == 2);
  CHECK(count_op(*result, "add") == 0);
  CHECK(count_op(*result, "maximum") == 0);
}

TEST_CASE("fuse keeps different iteration shapes apart") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 8});
  const Value row = g.input("row", keel::f32, {8});
  g.set_outputs({x * keel::exp(keel::neg(row))});
  FuseReport report;
  const auto result = fused_clusters(g, &report);
  CHECK(fused_node(*result).type().shape == Shape{8});
  CHECK(count_op(*result, "mul") == 1);
  CHECK(reports(report, "the shapes [8] and [4, 8] differ"));
}

TEST_CASE("fuse keeps to its limits") {
  Graph g;
  Value x = g.input("x", keel::f32, {4});
  for (int i = 0; i < 80; ++i) x = keel::tanh(x);
  g.set_outputs({x});
  FuseReport report;
  const auto chain = fused_clusters(g, &report);
  CHECK(count_op(*chain, "fused") == 3);
  CHECK(report.lines.size() == 2);
  CHECK(reports(report, "more than 32 instructions"));
  for (const Node& node : chain->nodes()) {
    if (!node.bodies().empty()) CHECK(node.bodies()[0]->size() <= 33);
  }

  Graph wide;
  Value total = wide.input("v", keel::f32, {4});
  for (int i = 0; i < 30; ++i) total = total + wide.input("v" + std::to_string(i), keel::f32, {4});
  wide.set_outputs({total});
  FuseReport wide_report;
  const auto result = fused_clusters(wide, &wide_report);
  CHECK(count_op(*result, "fused") >= 3);
  CHECK(reports(wide_report, "more than 16 inputs and outputs"));
  for (const Node& node : result->nodes()) {
    CHECK(node.inputs().size() + node.types().size() <= 16);
  }
}

TEST_CASE("fuse keeps the nodes that the backend declines") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4});
  g.set_outputs({keel::exp(x * 2) + 1});
  FuseReport report;
  const auto result = keel::fuse(g, nothing, &report);
  keel::verify(*result);
  CHECK(count_op(*result, "fused") == 0);
  CHECK(result->size() == g.size());
  CHECK(reports(report, "3 nodes: the backend declines: too wide"));
}

TEST_CASE("fuse does not fuse what it has fused") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4});
  g.set_outputs({keel::exp(keel::neg(x))});
  const auto once = fused_clusters(g);
  const auto twice = fused_clusters(*once);
  CHECK(twice->size() == once->size());
  CHECK(fused_node(*twice).bodies()[0]->size() == 3);
}

TEST_CASE("fuse leaves unknown shapes alone") {
  Graph g;
  const Value x = g.input("x", keel::f32, {-1});
  g.set_outputs({keel::exp(keel::neg(x))});
  FuseReport report;
  CHECK(count_op(*fused_clusters(g, &report), "fused") == 0);
  Graph slices;
  const Value wide = keel::exp(slices.input("wide", keel::f32, {-1, 9}));
  slices.set_outputs({keel::tanh(keel::slice(wide, {0, 0}, {keel::kToEnd, 3}))});
  CHECK(count_op(*fused_clusters(slices), "fused") == 0);
}

TEST_CASE("fuse works inside bodies") {
  Graph g;
  const Value x = g.input("x", keel::f32, {3});
  g.set_outputs(keel::while_loop(
      {x},
      [](const Values& v) { return keel::less(keel::sum(keel::transpose(v[0] * v[0] + 1)), 1000); },
      [](const Values& v) { return Values{keel::abs(v[0] * 2) + 1}; }));
  FuseReport report;
  const auto result = fused_clusters(g, &report);
  const Node& loop = result->outputs()[0].node();
  CHECK(count_op(*loop.bodies()[0], "fused") == 1);
  CHECK(count_op(*loop.bodies()[1], "fused") == 1);
  CHECK(reports(report, "(while_loop) body 0: "));
  const keel_test::Feeds feeds{{"x", Tensor::of<float>(Shape{3}, {1, -2, 3})}};
  CHECK(
      keel_test::all_bit_equal(keel_test::evaluate(g, feeds), keel_test::evaluate(*result, feeds)));
}

TEST_CASE("fuse is deterministic") {
  const auto shape_of = [](const Graph& g) {
    std::string text;
    for (const Node& node : g.nodes()) {
      text += node.op_name() + "(";
      for (const Value& v : node.inputs()) {
        text += std::to_string(v.node_id()) + "." + std::to_string(v.output()) + " ";
      }
      text += ")";
    }
    return text;
  };
  const auto random = keel_test::random_graph(11, 200);
  CHECK(shape_of(*fused_clusters(*random.graph)) == shape_of(*fused_clusters(*random.graph)));
}

TEST_CASE("fuse handles a graph of ten thousand nodes") {
  const auto random = keel_test::random_graph(3, 10000);
  const auto result = fused_clusters(*random.graph);
  CHECK(count_op(*result, "fused") > 0);

  Graph star;  // one value with very many users
  const Value x = keel::exp(star.input("x", keel::f32, {4}));
  Values outputs;
  for (int i = 0; i < 10000; ++i) outputs.push_back(keel::neg(x));
  star.set_outputs(outputs);
  CHECK(fused_clusters(star)->size() == star.size());
}

TEST_CASE("fuse keeps one body for nodes that compute the same and asks about it once") {
  Graph g;
  const Value w = g.input("w", keel::f32, {4, 4});
  const Value narrow = g.input("narrow", keel::f32, {4, 3});
  const auto layer = [&](const Value& x, float scale, int line = 1) {
    const keel::CallSite site{"model.cpp", line};
    const Value product = keel::matmul(w, x, {}, site);
    return keel::tanh(keel::mul(product, scale, site), site);
  };
  Value x = w;
  for (int i = 0; i < 4; ++i) x = layer(x, 0.5f);
  g.set_outputs({x, layer(x, 0.25f), layer(narrow, 0.5f), layer(x, 0.5f, 2)});
  int asked = 0;
  const auto result = keel::fuse(g, [&](const Node& node) -> Support {
    if (keel_test::anchor_of(node) != nullptr) return {false, "clusters only"};
    ++asked;
    return {true, ""};
  });
  keel::verify(*result);
  REQUIRE(count_op(*result, "fused") == 7);
  const auto body_of = [&](size_t output) {
    return result->outputs()[output].node().bodies()[0].get();
  };
  std::set<const Graph*> bodies;
  for (const Node& node : result->nodes()) {
    for (const auto& body : node.bodies()) bodies.insert(body.get());
  }
  // Another constant, another shape and another line of the user's each have their own.
  CHECK(bodies.size() == 4);
  CHECK(asked == 4);
  CHECK(body_of(0) != body_of(1));
  CHECK(body_of(0) != body_of(2));
  CHECK(body_of(0) != body_of(3));
}

TEST_CASE(
    "fuse gives nodes that differ in a mark or in the order of operands bodies of their own") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4}), y = g.input("y", keel::f32, {4});
  const keel::CallSite site{"model.cpp", 1};
  const auto layer = [&](const Value& a, const Value& b) {
    return keel::tanh(keel::sub(keel::exp(a, site), b, site), site);
  };
  Values outputs = {layer(x, y), layer(y, x),
                    keel::tanh(keel::sub(y, keel::exp(x, site), site), site)};
  {
    const keel::AttributeScope marked(g, "precision", "keep");
    outputs.push_back(layer(x, y));
  }
  g.set_outputs(outputs);
  const auto result = fused_clusters(g);
  const auto body_of = [&](size_t output) {
    return result->outputs()[output].node().bodies().at(0).get();
  };
  CHECK(body_of(0) == body_of(1));
  CHECK(body_of(0) != body_of(2));
  CHECK(body_of(0) != body_of(3));
}

TEST_CASE("clusters honour other limits") {
  Graph g;
  Value x = g.input("x", keel::f32, {4});
  for (int i = 0; i < 6; ++i) x = keel::neg(x);
  g.set_outputs({x});
  const std::vector<bool> live(g.size(), true);
  const keel::Users users(g, live);
  CHECK(keel::form_clusters(g, live, users, {.instructions = 2}).members.size() == 3);
  CHECK(keel::form_clusters(g, live, users, {.inputs_and_outputs = 1}).members.size() == 6);
}

TEST_CASE("fuse changes no bit of random graphs") {
  CHECK(rc::check("fuse", [](uint64_t seed) {
    const auto random = keel_test::random_graph(seed, 80);
    const auto result = fused_clusters(*random.graph);
    RC_ASSERT(keel_test::all_bit_equal(keel_test::evaluate(*random.graph, random.feeds),
                                       keel_test::evaluate(*result, random.feeds)));
    const auto all = fused_clusters(*keel::cse(*keel::fold(*random.graph)));
    RC_ASSERT(keel_test::all_bit_equal(keel_test::evaluate(*random.graph, random.feeds),
                                       keel_test::evaluate(*all, random.feeds)));
  }));
}

TEST_SUITE_END();
