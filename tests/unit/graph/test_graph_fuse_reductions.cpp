// The pass that gives reductions what is computed beside them: what it takes together, what it
// leaves apart and why, where it puts it, and that the graph computes what it did.
#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"

#include "support/evaluate_graph.h"
#include "support/fusing.h"

TEST_SUITE_BEGIN("graph");

namespace {

using keel::FuseReport;
using keel::Graph;
using keel::Node;
using keel::Shape;
using keel::Support;
using keel::SupportsFunction;
using keel::Tensor;
using keel::Value;
using keel_test::all_bit_equal;
using keel_test::count_op;
using keel_test::evaluate;
using keel_test::everything;
using keel_test::fused;
using keel_test::ramp;
using keel_test::reports;

const Node& only_reduction(const Graph& g) { return keel_test::only_anchored(g, keel::kReduction); }
size_t count_reductions(const Graph& g) { return keel_test::count_anchors(g, keel::kReduction); }
bool is_fused_reduction(const Node& node) {
  const Node* anchor = keel_test::anchor_of(node);
  return anchor != nullptr && anchor->has(keel::kReduction);
}

// Declines fused reductions for which `refuses` gives a reason.
SupportsFunction unless(const std::function<std::string(const Node&)>& refuses) {
  return [refuses](const Node& node) -> Support {
    if (!is_fused_reduction(node)) return {true, ""};
    const std::string reason = refuses(node);
    return {reason.empty(), reason};
  };
}

bool has_prologue(const Node& node) { return !keel::FusedBody(*node.bodies()[0]).prologue.empty(); }
bool has_epilogue(const Node& node) { return !keel::FusedBody(*node.bodies()[0]).epilogue.empty(); }

size_t position_of(const Graph& g, const std::string& op) {
  return keel_test::only_node(g, op).id();
}

}  // namespace

TEST_CASE("fuse reductions: squares are reduced as they are computed and the mean follows") {
  Graph g;
  const Value a = g.input("a", keel::f32, {3, 5});
  const Value b = g.input("b", keel::f32, {5});
  g.set_outputs({keel::sum(keel::square(a - b)) / 15.0f});
  const auto result = fused(g);
  const Node& node = only_reduction(*result);
  CHECK(node.inputs().size() == 2);
  CHECK(has_prologue(node));
  CHECK(has_epilogue(node));
  CHECK(result->outputs()[0] == node.output());
  const keel_test::Feeds feeds{{"a", ramp({3, 5}, -1, 0.1)}, {"b", ramp({5}, 1, -0.07)}};
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*result, feeds)));
}

TEST_CASE("fuse reductions: the update of a bias follows the sum that makes its gradient") {
  Graph g;
  const Value d = g.input("d", keel::f32, {7, 4});
  const Value b = g.state("b", {.type = {keel::f32, Shape{4}}});
  g.add_update(b, b - keel::sum(d, {0}) * 0.5f);
  const auto result = fused(g);
  const Node& node = only_reduction(*result);
  CHECK(result->updates()[0].next == node.output());
  CHECK(node.inputs().size() == 2);
  CHECK(node.input(1).node().op_name() == "state");
  CHECK_FALSE(has_prologue(node));
  const keel_test::Feeds feeds{{"d", ramp({7, 4}, -1, 0.1)}, {"b", ramp({4}, 1, -0.07)}};
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*result, feeds)));
}

TEST_CASE("fuse reductions: each kind of reduction with what is beside it alone") {
  using Reduce = Value (*)(keel::Operand, const std::vector<int64_t>&, bool, keel::CallSite);
  for (const Reduce reduce :
       {Reduce(&keel::sum), Reduce(&keel::prod), Reduce(&keel::max), Reduce(&keel::min)}) {
    for (const bool keepdims : {false, true}) {
      Graph before, behind;
      const Value x = before.input("x", keel::f32, {2, 3, 4});
      before.set_outputs({reduce(keel::tanh(x), {1}, keepdims, {})});
      const Value y = behind.input("x", keel::f32, {2, 3, 4});
      behind.set_outputs({keel::tanh(reduce(y, {0, 2}, keepdims, {}))});
      for (const Graph* g : {&before, &behind}) {
        const auto result = fused(*g);
        CHECK(has_prologue(only_reduction(*result)) == (g == &before));
        CHECK(has_epilogue(only_reduction(*result)) == (g == &behind));
        const keel_test::Feeds feeds{{"x", ramp({2, 3, 4}, -1, 0.11)}};
        CHECK(all_bit_equal(evaluate(*g, feeds), evaluate(*result, feeds)));
      }
    }
  }
}

TEST_CASE("fuse reductions: views between are taken along") {
  Graph g;
  const Value x = g.input("x", keel::f32, {2, 3, 4});
  const Value b = g.state("b", {.type = {keel::f32, Shape{1, 4}}});
  const Value flat = keel::reshape(keel::square(x), {6, 4});
  g.add_update(b, b - keel::reshape(keel::sum(flat, {0}), {1, 4}) * 0.5f);
  const auto result = fused(g);
  CHECK(count_op(*result, "reshape") == 0);
  const Node& node = only_reduction(*result);
  CHECK(node.type() == keel::Type{keel::f32, {1, 4}});
  const keel_test::Feeds feeds{{"x", ramp({2, 3, 4}, -1, 0.1)}, {"b", ramp({1, 4}, 1, -0.07)}};
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*result, feeds)));
}

TEST_CASE("fuse reductions: what is read elsewhere or differs in shape stays apart and says so") {
  const auto apart = [](const std::function<keel::Values(Graph&, Value)>& build,
                        const std::string& reason) {
    Graph g;
    const Value x = g.input("x", keel::f32, {4, 4});
    g.set_outputs(build(g, x));
    FuseReport report;
    const auto result = fused(g, everything, &report);
    CAPTURE(reason);
    CHECK(count_reductions(*result) == 0);
    CHECK(reports(report, reason));
  };
  apart(
      [](Graph&, Value x) {
        const Value e = keel::exp(x);
        return keel::Values{keel::sum(e), keel::sum(e, {1})};
      },
      "(sum) reads it, too");
  apart(
      [](Graph&, Value x) {
        const Value e = keel::exp(x);
        return keel::Values{keel::sum(e), e};
      },
      "it is a result of the step, too");
  apart(
      [](Graph&, Value x) {
        const Value s = keel::sum(x, {0});
        return keel::Values{keel::exp(s), keel::matmul(x, keel::reshape(s, {4, 1}))};
      },
      "reads it, too");
  apart(
      [](Graph&, Value x) {
        const Value s = keel::sum(x, {0});
        return keel::Values{keel::exp(s), s};
      },
      "it is a result of the step, too");
  apart([](Graph&, Value x) { return keel::Values{x - keel::sum(x, {1}, true)}; },
        "the shapes [4, 1] and [4, 4] differ");
  apart([](Graph&, Value x) { return keel::Values{keel::transpose(keel::sum(x, {1}, true))}; },
        "transpose is not element-wise");
  apart(
      [](Graph&, Value x) {
        const Value e = keel::exp(x);
        return keel::Values{keel::sum(e * 2.0f), keel::matmul(e + 1.0f, x)};
      },
      "it has other results, too");
}

TEST_CASE("fuse reductions: of what has other results a part is computed with the reduction") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  const Value e = keel::exp(x);
  g.set_outputs({keel::sum(e * 2.0f), keel::matmul(e, x)});
  const auto result = fused(g);
  CHECK(has_prologue(only_reduction(*result)));
  const keel_test::Feeds feeds{{"x", ramp({4, 4}, -1, 0.11)}};
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*result, feeds)));
  // A backend that declines it has the cluster whole.
  FuseReport report;
  const auto whole = fused(g, keel_test::with_anchors(keel::kProduct), &report);
  CHECK(count_reductions(*whole) == 0);
  CHECK(reports(report, "it has other results, too"));
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*whole, feeds)));
}

TEST_CASE("fuse reductions: of two reductions that one cluster reads the later takes it") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 6});
  const Value total = keel::sum(x, {1});
  const Value largest = keel::max(x, {1});
  g.set_outputs({total * 0.5f + largest});
  FuseReport report;
  const auto result = fused(g, everything, &report);
  CHECK(keel_test::anchor_of(only_reduction(*result))->op_name() == "max");
  CHECK(count_op(*result, "sum") == 1);
  CHECK(reports(report, "another reduction is computed with it"));
  // In a chain what lies between follows the first and is not computed for the second.
  Graph chain;
  const Value y = chain.input("x", keel::f32, {4, 6});
  chain.set_outputs({keel::sum(keel::exp(keel::sum(y, {1})))});
  FuseReport chained;
  CHECK(count_op(*fused(chain, everything, &chained), "sum") == 1);
  CHECK(reports(chained, "it is computed with another reduction"));
}

TEST_CASE("fuse reductions: what a product has taken stays with the product") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  g.set_outputs({keel::sum(keel::exp(keel::matmul(x, x)), {0}) * 2.0f});
  const auto result = fused(g);
  CHECK(keel_test::count_anchors(*result, keel::kProduct) == 1);
  CHECK_FALSE(has_prologue(only_reduction(*result)));
}

TEST_CASE("fuse reductions: the backend may take a part of it") {
  const auto build = [](Graph& g) {
    const Value x = g.input("x", keel::f32, {4, 4});
    g.set_outputs({keel::sum(keel::exp(x), {0}) * 2.0f});
  };
  const auto reason_for = [](bool (*part)(const Node&)) {
    return unless([part](const Node& n) { return part(n) ? std::string("not that") : ""; });
  };
  Graph g;
  build(g);
  FuseReport report;
  const auto behind = fused(g, reason_for(&has_prologue), &report);
  CHECK_FALSE(has_prologue(only_reduction(*behind)));
  CHECK(count_op(*behind, "exp") == 1);
  CHECK(reports(report, "(exp) -> %2 (sum): the backend declines: not that"));
  const auto before = fused(g, reason_for(&has_epilogue), &report);
  CHECK_FALSE(has_epilogue(only_reduction(*before)));
  CHECK(count_op(*before, "mul") == 1);
  CHECK(reports(report, "(sum) -> %4 (mul): the backend declines: not that"));
  const auto neither = fused(g, reason_for([](const Node&) { return true; }), &report);
  CHECK(count_reductions(*neither) == 0);
  CHECK(count_op(*neither, "sum") == 1);
}

TEST_CASE("fuse reductions: it comes where the reduction is if what it reads is there") {
  // What is reduced need not live until the last product, which the epilogue stands behind.
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  const Value b = g.state("b", {.type = {keel::f32, Shape{4}}});
  const Value total = keel::sum(x, {0});
  const Value product = keel::matmul(x, x);
  g.add_update(b, b - total * 0.5f);
  g.set_outputs({product});
  const auto early = fused(g);
  CHECK(only_reduction(*early).id() < position_of(*early, "matmul"));

  // Not where others have yet to read the state that it changes.
  Graph h;
  const Value y = h.input("x", keel::f32, {4, 4});
  const Value c = h.state("b", {.type = {keel::f32, Shape{4}}});
  const Value sums = keel::sum(y, {0});
  const Value reads = keel::matmul(y, keel::reshape(c, {4, 1}));
  h.add_update(c, c - sums * 0.5f);
  h.set_outputs({reads});
  CHECK(count_reductions(*fused(h)) == 1);
  const auto late = fused(h);
  CHECK(only_reduction(*late).id() > position_of(*late, "matmul"));

  // Nor before what else the epilogue reads.
  Graph k;
  const Value z = k.input("x", keel::f32, {4, 4});
  const Value column = k.input("column", keel::f32, {4, 1});
  const Value rows = keel::sum(z, {0});
  k.set_outputs({rows * keel::reshape(keel::matmul(z, column), {4})});
  const auto behind = fused(k);
  CHECK(only_reduction(*behind).id() > position_of(*behind, "matmul"));
}

TEST_CASE("fuse reductions: bodies of loops are fused too") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  const keel::Values out = keel::while_loop(
      {x},
      [](const keel::Values& v) {
        return v[0].graph().constant(Tensor::full(keel::boolean, {}, 1));
      },
      [](const keel::Values& v) {
        return keel::Values{
            v[0] * 0.5f +
            keel::matmul(v[0], keel::broadcast_to(keel::sum(keel::exp(v[0])) * 0.1f, {4, 4}))};
      },
      {.trip_count = 2});
  g.set_outputs({out[0]});
  const auto result = fused(g);
  CHECK(count_reductions(*result) == 0);
  FuseReport report;
  fused(g, unless([](const Node&) { return "not here"; }), &report);
  CHECK(reports(report, "(while_loop) body 1: "));
  const Node& loop = keel_test::only_node(*result, "while_loop");
  CHECK(count_reductions(*loop.bodies()[1]) == 1);
}

TEST_CASE("fuse reductions: the node prints and parses") {
  Graph g;
  const Value x = g.input("x", keel::f32, {2, 3, 4});
  const Value b = g.state("b", {.type = {keel::f32, Shape{4}}});
  g.add_update(b, b - keel::sum(keel::square(x), {0, 1}) * 0.5f);
  g.set_outputs({keel::max(x, {2}, true) + 1.0f});
  const auto result = fused(g);
  CHECK(count_reductions(*result) == 2);
  const std::string text = keel::print_graph(*result);
  const auto parsed = keel::parse_graph(text);
  keel::verify(*parsed);
  CHECK(keel::print_graph(*parsed) == text);
  const keel_test::Feeds feeds{{"x", ramp({2, 3, 4}, -1, 0.1)}, {"b", ramp({4}, 1, -0.07)}};
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*parsed, feeds)));
}

TEST_CASE("fuse reductions: layers that repeat share bodies and the backend is asked once") {
  Graph g;
  const Value x = g.input("x", keel::f32, {8, 4});
  keel::Values sums;
  for (int i = 0; i < 50; ++i) {
    sums.push_back(keel::sum(keel::square(keel::transpose(x, {1, 0})), {0}) / 4.0f);
    sums.back() = keel::reshape(sums.back(), {8, 1});
  }
  g.set_outputs(sums);
  int asked = 0;
  const auto counting = [&](const Node& node) -> Support {
    if (is_fused_reduction(node)) ++asked;
    return {true, ""};
  };
  const auto result = fused(g, counting);
  CHECK(count_reductions(*result) == 50);
  CHECK(asked == 1);
}

TEST_SUITE_END();
