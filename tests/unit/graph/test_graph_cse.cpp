#include <rapidcheck.h>
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"

#include "support/random_graph.h"

TEST_SUITE_BEGIN("graph");

namespace {

using keel::Graph;
using keel::Shape;
using keel::Tensor;
using keel::Value;
using keel::Values;
using keel_test::count_op;

}  // namespace

TEST_CASE("cse merges equal nodes and what reads them") {
  Graph g;
  const Value x = g.input("x", keel::f32, {2});
  const Value y = g.input("y", keel::f32, {2});
  g.set_outputs({keel::exp(x + y), keel::exp(x + y), keel::exp(y + x)});
  const auto merged = keel::cse(g);
  keel::verify(*merged);
  CHECK(count_op(*merged, "add") == 2);  // operands are not reordered
  CHECK(count_op(*merged, "exp") == 2);
  CHECK(merged->outputs()[0] == merged->outputs()[1]);
  CHECK(merged->outputs()[0] != merged->outputs()[2]);
}

TEST_CASE("cse compares attributes") {
  Graph g;
  const Value x = g.input("x", keel::f32, {2, 2});
  g.set_outputs({keel::sum(x, {0}), keel::sum(x, {1}), keel::sum(x, {0}, true), keel::sum(x, {0})});
  CHECK(count_op(*keel::cse(g), "sum") == 3);
}

TEST_CASE("cse merges constants of equal bits") {
  Graph g;
  const auto constant = [&](const Tensor& t) { return g.constant(t); };
  g.set_outputs({constant(Tensor::scalar(1.0f)), constant(Tensor::scalar(1.0f)),
                 constant(Tensor::scalar(1.0)), constant(Tensor::full(keel::f32, Shape{1}, 1)),
                 constant(Tensor::scalar(0.0f)), constant(Tensor::scalar(-0.0f))});
  const auto merged = keel::cse(g);
  CHECK(merged->size() == 5);
  CHECK(merged->outputs()[0] == merged->outputs()[1]);
}

TEST_CASE("cse keeps inputs and states apart and drops dead nodes") {
  Graph g;
  const Value x = g.input("x", keel::f32, {});
  g.input("y", keel::f32, {});
  const Value w = g.state("w", {.type = {keel::f32, {}}});
  const Value v = g.state("v", {.type = {keel::f32, {}}});
  keel::exp(x);
  g.add_update(w, v);
  const auto merged = keel::cse(g);
  keel::verify(*merged);
  CHECK(merged->inputs().size() == 2);
  CHECK(merged->states().size() == 2);
  CHECK(merged->size() == 4);
}

TEST_CASE("cse never merges effects or control flow") {
  Graph g;
  const keel::OpDef& loop = g.ops().at("sunk_loop");
  for (int i = 0; i < 2; ++i) g.add(loop, {}, {}, {}, {std::make_shared<Graph>()});
  const auto merged = keel::cse(g);
  CHECK(merged->size() == 3);  // with the token before the first
  CHECK(merged->node(2).inputs().back() == merged->node(1).output());
}

TEST_CASE("cse works inside bodies") {
  Graph g;
  const Value x = g.input("x", keel::f32, {});
  g.set_outputs(keel::while_loop(
      {x}, [](const Values& v) { return keel::less(v[0], 100); },
      [](const Values& v) { return Values{keel::abs(v[0]) + keel::abs(v[0])}; }));
  const auto merged = keel::cse(g);
  keel::verify(*merged);
  CHECK(count_op(*merged->outputs()[0].node().bodies()[1], "abs") == 1);
}

TEST_CASE("cse leaves each loop variable a fill of its own to overwrite") {
  Graph g;
  const Value x = g.input("x", keel::f32, {3});
  const Value zero = g.constant(Tensor::scalar(0.0f));
  const auto fill = [&] { return keel::broadcast_to(zero, {4, 3}); };
  const auto begins_with = [&](const Value& a, const Value& b) {
    return keel::while_loop(
        {a, b}, [](const Values& v) { return keel::less(keel::sum(v[0]), 9); },
        [&](const Values& v) {
          return Values{v[0] + x, v[1] + 1};
        });
  };
  Values outputs = begins_with(fill(), fill());
  outputs.push_back(keel::exp(fill()));
  outputs.push_back(keel::log(fill()));
  const Values wide = begins_with(keel::broadcast_to(x, {4, 3}), keel::broadcast_to(x, {4, 3}));
  outputs.insert(outputs.end(), wide.begin(), wide.end());
  g.set_outputs(outputs);
  const auto merged = keel::cse(g);
  keel::verify(*merged);
  // Two for the first loop, one for the functions, one for the second loop, which copies it.
  CHECK(count_op(*merged, "broadcast_to") == 4);
}

TEST_CASE("cse changes no bit of random graphs") {
  CHECK(rc::check("cse", [](uint64_t seed) {
    const auto random = keel_test::random_graph(seed, 60);
    const auto merged = keel::cse(*random.graph);
    keel::verify(*merged);
    RC_ASSERT(keel_test::all_bit_equal(keel_test::evaluate(*random.graph, random.feeds),
                                       keel_test::evaluate(*merged, random.feeds)));
    RC_ASSERT(keel::cse(*merged)->size() == merged->size());
  }));
}

TEST_SUITE_END();
