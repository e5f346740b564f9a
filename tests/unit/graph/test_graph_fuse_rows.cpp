// Parts of rows that a fused unit reads and makes where they lie, without tasks of slices and
// concats.
#include <memory>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/reduce.h"
#include "keel/ops/scan.h"
#include "keel/ops/shape.h"
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
using keel::Value;
using keel::Values;
using keel_test::count_op;
using keel_test::fused_clusters;
using keel_test::reports;

Value columns(const Value& x, int64_t begin, int64_t end) {
  return keel::slice(x, {0, begin}, {keel::kToEnd, end}, {}, {"model.cpp", 1});
}

// As a backend does that takes clusters with so many nodes of an op, and nothing around anchors.
keel::SupportsFunction with_at_most(const char* op, size_t most, const char* reason) {
  return keel_test::with_anchors(0, [=](const Node& node) -> Support {
    return {count_op(*node.bodies()[0], op) <= most, reason};
  });
}

// Says whether a graph has the same bits as one that it was made of.
bool has_bits_of(const Graph& g, const Graph& result, const keel_test::Feeds& feeds) {
  return keel_test::all_bit_equal(keel_test::evaluate(g, feeds),
                                  keel_test::evaluate(result, feeds));
}

}  // namespace

TEST_CASE("fuse puts slices of rows to the one unit that reads them") {
  Graph g;
  const Value x = keel::exp(g.input("x", keel::f32, {4, 9}));
  const keel::CallSite site{"model.cpp", 1};
  const auto gate = [&](int64_t begin) {
    const Value left = columns(x, begin, begin + 3), right = columns(x, begin + 3, begin + 6);
    return keel::mul(keel::tanh(left, site), right, site);
  };
  g.set_outputs({gate(0), gate(3)});
  const auto result = fused_clusters(g);
  CHECK(count_op(*result, "slice") == 0);
  REQUIRE(count_op(*result, "fused") == 2);
  for (const Value& v : result->outputs()) {
    REQUIRE(v.node().inputs().size() == 1);
    CHECK(v.node().input(0).shape() == Shape{4, 9});
    CHECK(count_op(*v.node().bodies()[0], "slice") == 2);
  }
  CHECK(result->outputs()[0].node().bodies()[0] != result->outputs()[1].node().bodies()[0]);
  const keel_test::Feeds feeds = {{"x", keel_test::ramp({4, 9}, -1, 0.125)}};
  CHECK(has_bits_of(g, *result, feeds));
}

TEST_CASE("fuse leaves slices that others read or that a backend declines") {
  Graph g;
  const Value x = keel::exp(g.input("x", keel::f32, {4, 9})), w = g.input("w", keel::f32, {3, 3});
  const Value leaves = columns(x, 0, 3), shared = columns(x, 3, 6), alone = columns(x, 6, 9);
  g.set_outputs({leaves, keel::exp(leaves), keel::tanh(shared), keel::matmul(shared, w),
                 keel::exp(keel::tanh(alone))});
  CHECK(count_op(*fused_clusters(g), "slice") == 2);
  const auto without_slices = with_at_most("slice", 0, "slices");
  FuseReport report;
  const auto result = keel_test::fused(g, without_slices, &report);
  CHECK(count_op(*result, "slice") == 3);
  CHECK(count_op(*result, "fused") == 1);
  CHECK(reports(report, "the backend declines: slices"));
}

TEST_CASE("fuse leaves slices of states of loop variables and of other shapes") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 9}), y = g.input("y", keel::f32, {4, 3});
  const Value state = g.state("s", keel::zeros({4, 9}));
  const Value computed = keel::exp(x);
  const Values loop = keel::while_loop(
      {x, y}, [](const Values& v) { return keel::less(keel::sum(v[1]), 1.0f); },
      [](const Values& v) {
        return Values{keel::tanh(v[0]), keel::exp(columns(v[0], 0, 3)) + v[1]};
      });
  g.set_outputs({keel::tanh(keel::exp(columns(state, 0, 3))),
                 keel::tanh(keel::exp(columns(x, 3, 6))), keel::exp(y * columns(computed, 0, 1)),
                 loop[0], loop[1]});
  const auto result = fused_clusters(g);
  CHECK(count_op(*result, "slice") == 3);
  CHECK(count_op(*keel_test::only_node(*result, "while_loop").bodies()[1], "slice") == 1);
}

TEST_CASE("fuse lets the unit that makes rows join them") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 3}), w = g.input("w", keel::f32, {9, 2});
  const Value a = keel::exp(x), b = keel::tanh(a), c = a - b;
  // Others that read a value get it as before; a value may come twice.
  const Value all = keel::concat({a, b, c}, 1), twice = keel::concat({c, keel::abs(c), c}, 1);
  g.set_outputs({keel::matmul(all, w), keel::matmul(twice, w), keel::sum(b, {0})});
  FuseReport report;
  const auto result = fused_clusters(g, &report);
  CHECK(count_op(*result, "concat") == 0);
  const Node& node = keel_test::only_node(*result, "fused");
  REQUIRE(node.types().size() == 3);
  CHECK(node.type(0).shape == Shape{4, 3});
  CHECK(node.type(1).shape == Shape{4, 9});
  CHECK(node.type(2).shape == Shape{4, 9});
  CHECK(count_op(*node.bodies()[0], "concat") == 2);
  CHECK_FALSE(reports(report, "concat"));
  CHECK(has_bits_of(
      g, *result,
      {{"x", keel_test::ramp({4, 3}, -1, 0.125)}, {"w", keel_test::ramp({9, 2}, 1, -0.25)}}));
}

TEST_CASE("fuse joins rows whose parts it reads where they lie") {
  Graph g;
  const Value x = keel::exp(g.input("x", keel::f32, {4, 6}));
  const Value left = columns(x, 0, 3), right = columns(x, 3, 6), scale = keel::tanh(left);
  g.set_outputs({keel::concat({scale * right, scale - left}, 1)});
  const auto result = fused_clusters(g);
  CHECK(count_op(*result, "concat") == 0);
  CHECK(count_op(*result, "slice") == 0);
  const Node& node = result->outputs()[0].node();
  REQUIRE(node.bodies().size() == 1);
  CHECK(node.types().size() == 1);
  CHECK(has_bits_of(g, *result, {{"x", keel_test::ramp({4, 6}, -1, 0.125)}}));
}

TEST_CASE("fuse leaves joins of what several units make and along other axes") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 3}), y = keel::exp(x);
  const Value other = keel::tanh(keel::cumsum(y, 1)), row = keel::exp(g.input("r", keel::f32, {3}));
  g.set_outputs({keel::concat({y, other}, 1), keel::concat({y, x}, 1), keel::concat({y, y}, 0),
                 keel::concat({row, row * 2.0f, keel::sum(y, {0})}, 0),
                 keel::concat({y * row, keel::transpose(keel::transpose(y))}, 1)});
  const auto result = fused_clusters(g);
  CHECK(count_op(*result, "concat") == 5);
  const auto declines = with_at_most("concat", 0, "joins");
  Graph alone;
  const Value z = keel::exp(alone.input("x", keel::f32, {4, 3}));
  alone.set_outputs({keel::concat({z, keel::tanh(z)}, 1)});
  CHECK(count_op(*fused_clusters(alone), "concat") == 0);
  FuseReport report;
  CHECK(count_op(*keel_test::fused(alone, declines, &report), "concat") == 1);
  CHECK(reports(report, "the backend declines: joins"));
}

TEST_CASE("fuse says of each edge of rows that are moved why it is one") {
  const auto declines = with_at_most("concat", 0, "joins");
  Graph g;
  const Value x = keel::exp(g.input("x", keel::f32, {4, 3}));
  const Value joined = keel::concat({x, keel::tanh(x)}, 1);
  g.set_outputs({keel::exp(joined)});
  FuseReport taken, declined;
  CHECK(count_op(*fused_clusters(g, &taken), "concat") == 0);
  CHECK(reports(taken, "concat is not element-wise"));
  CHECK_FALSE(reports(taken, "declines"));
  CHECK(count_op(*keel_test::fused(g, declines, &declined), "concat") == 1);
  CHECK(reports(declined, "concat is not element-wise"));
  CHECK(reports(declined, "the backend declines: joins"));
}

TEST_CASE("fuse leaves the last of the rows that are too much for one task") {
  const auto two_joins = with_at_most("concat", 2, "three joins");
  Graph g;
  const Value wide = keel::abs(g.input("x", keel::f32, {4, 6}));
  const Value a = keel::exp(columns(wide, 0, 3)) * columns(wide, 3, 6), b = keel::tanh(a);
  g.set_outputs({keel::concat({a, b}, 1), keel::concat({b, a}, 1), keel::concat({a, a}, 1)});
  FuseReport report;
  const auto result = keel_test::fused(g, two_joins, &report);
  CHECK(count_op(*result, "concat") == 1);
  CHECK(count_op(*result, "slice") == 0);
  CHECK(result->outputs()[2].node().op_name() == "concat");
  CHECK(reports(report, "the backend declines: three joins"));
  CHECK(has_bits_of(g, *result, {{"x", keel_test::ramp({4, 6}, -1, 0.125)}}));
}

TEST_SUITE_END();
