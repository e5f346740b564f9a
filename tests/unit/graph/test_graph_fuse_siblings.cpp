// The pass that puts reductions of one kind over the same values into one node: which it joins,
// which it leaves apart and why, what of a cluster it computes with them, where it puts them, and
// that the graph computes what it did.
#include <doctest/doctest.h>

#include "keel/graph/ir/sample.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/loss.h"
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
using keel::Values;
using keel_test::all_bit_equal;
using keel_test::count_op;
using keel_test::evaluate;
using keel_test::everything;
using keel_test::fused;
using keel_test::ramp;
using keel_test::reports;

// How many reductions the fused nodes compute that have siblings, in the order of the graph.
std::vector<size_t> joined(const Graph& g) {
  std::vector<size_t> counts;
  for (const Node& node : g.nodes()) {
    if (!keel::is_fused_node(node)) continue;
    const size_t siblings = keel::FusedBody(*node.bodies()[0]).siblings.size();
    if (siblings != 0) counts.push_back(1 + siblings);
  }
  return counts;
}

const Node& only_joined(const Graph& g) { return keel_test::only_anchored(g, keel::kReduction); }

// How many nodes of an op a graph has, those in bodies of fused nodes among them.
size_t count_with_bodies(const Graph& g, const std::string& op) {
  size_t count = count_op(g, op);
  for (const Node& node : g.nodes()) {
    if (keel::is_fused_node(node)) count += count_op(*node.bodies()[0], op);
  }
  return count;
}

// The results are the same bits, and no product or reduction is computed twice, as one would be
// that is to follow from its own group.
void check_results(const Graph& g, const Graph& result) {
  const auto apart = fused(g, keel_test::only_clusters());
  for (const char* op : {"matmul", "sum", "max", "softmax_cross_entropy"}) {
    CAPTURE(std::string(op));
    CHECK(count_with_bodies(result, op) == count_with_bodies(*apart, op));
  }

  keel_test::Feeds feeds;
  double first = -1;
  for (const Value& input : g.inputs())
    feeds[keel::name_of(input.node())] = ramp(input.shape(), first += 0.3, 0.07);
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(result, feeds)));
}

// A random graph of [4, 4] values: products, reductions over either axis, row-wise ops, and
// element-wise ops between them, all of which read any value that came before.
void draw_mixed_graph(Graph& g, uint64_t seed) {
  keel::SampleSource source(seed, keel::f32, 4);
  const Shape shape{4, 4};
  std::vector<Value> values{g.input("x", keel::f32, shape), g.input("y", keel::f32, shape)};
  const auto any = [&] { return source.pick(values); };
  const auto reduced = [&](const Value& v) {
    const std::vector<int64_t> axes{source.integer(0, 1)};
    const Value narrow = source.coin() ? keel::sum(v, axes, true) : keel::max(v, axes, true);
    return source.coin() ? narrow + keel::broadcast_to(0.5f * any(), shape) : narrow * any();
  };
  const int64_t nodes = source.integer(12, 40);
  for (int64_t i = 0; i < nodes; ++i) {
    switch (source.integer(0, 7)) {
      case 0:
        values.push_back(keel::matmul(any(), any()));
        break;
      case 1:
        values.push_back(reduced(any()));
        break;
      case 2:
        values.push_back(reduced(any() * any()));
        break;
      case 3:
        values.push_back(reduced(keel::tanh(any()) - any()));
        break;
      case 4:
        values.push_back(keel::softmax(any()));
        break;
      case 5:
        values.push_back(any() + keel::reshape(keel::softmax_cross_entropy(any(), any()), {4, 1}));
        break;
      default:
        values.push_back(keel::tanh(any() + any()));
        break;
    }
  }
  Values outputs;
  for (int64_t i = source.integer(1, 4); i > 0; --i) outputs.push_back(any());
  outputs.push_back(values.back());
  g.set_outputs(outputs);
}

}  // namespace

TEST_CASE("fuse siblings: sums of a tensor and its squares and a product with it are one node") {
  Graph g;
  const Value x = g.input("x", keel::f32, {6, 5});
  const Value y = g.input("y", keel::f32, {6, 5});
  g.set_outputs({keel::sum(x, {0}), keel::sum(keel::square(x), {0}), keel::sum(x * y, {0})});
  const auto result = fused(g);
  CHECK(joined(*result) == std::vector<size_t>{3});
  const Node& node = only_joined(*result);
  CHECK(node.inputs().size() == 2);
  CHECK(node.types().size() == 3);
  CHECK(count_op(*result, "sum") == 0);
  check_results(g, *result);
}

TEST_CASE("fuse siblings: those of different values or axes or ops stay apart") {
  const auto build = [](const std::function<Values(Value, Value)>& outputs) {
    auto g = std::make_unique<Graph>();
    const Value x = g->input("x", keel::f32, {5, 5});
    g->set_outputs(outputs(x, g->input("y", keel::f32, {5, 5})));
    return g;
  };
  const std::function<Values(Value, Value)> apart[] = {
      [](Value x, Value y) {
        return Values{keel::sum(x, {0}), keel::sum(keel::exp(y), {0})};
      },
      [](Value x, Value) {
        return Values{keel::sum(x, {0}), keel::sum(keel::exp(x), {1})};
      },
      [](Value x, Value) {
        return Values{keel::sum(x, {0}), keel::sum(keel::exp(x), {0}, true)};
      },
      [](Value x, Value) {
        return Values{keel::sum(x, {0}), keel::max(keel::exp(x), {0})};
      },
      [](Value x, Value) {
        return Values{keel::sum(x, {0}), keel::sum(keel::cast(x, keel::f16), {0})};
      }};
  for (const auto& outputs : apart) {
    const auto g = build(outputs);
    const auto result = fused(*g);
    CHECK(joined(*result).empty());
    check_results(*g, *result);
  }
}

TEST_CASE("fuse siblings: one that follows from the other or from what comes between stays") {
  Graph chain;
  const Value x = chain.input("x", keel::f32, {6, 5});
  const Value distances = x - keel::sum(x, {0}, true) / 6.0f;
  chain.set_outputs({keel::sum(keel::square(distances), {0}, true)});
  CHECK(joined(*fused(chain)).empty());
  check_results(chain, *fused(chain));

  Graph between;
  const Value y = between.input("y", keel::f32, {5, 5});
  const Value first = keel::sum(y, {0});
  const Value product = keel::matmul(y, y);
  between.set_outputs({first, keel::sum(y * product, {0}), product});
  FuseReport report;
  CHECK(joined(*fused(between, everything, &report)).empty());
  CHECK(reports(report, "(matmul) comes between them"));
}

TEST_CASE("fuse siblings: products with rows wait for none that waits for them") {
  // The rows of the product read one sum, and the other reads the product.
  Graph rows_first;
  const Value x = rows_first.input("x", keel::f32, {4, 4});
  const Value product = keel::matmul(x, x);
  const Value scale = keel::sum(x, {0}, true);
  const Value loss = keel::softmax_cross_entropy(product, keel::broadcast_to(scale, {4, 4}));
  rows_first.set_outputs({loss, scale, keel::sum(x * product, {0}, true)});
  check_results(rows_first, *fused(rows_first));

  // The first sum reads the product, and its rows the second.
  Graph rows_last;
  const Value y = rows_last.input("y", keel::f32, {4, 4});
  const Value other = keel::matmul(y, y);
  const Value first = keel::sum(y * other, {0}, true);
  const Value second = keel::sum(keel::square(y), {0}, true);
  const Value rows = keel::softmax_cross_entropy(other, keel::broadcast_to(second, {4, 4}));
  rows_last.set_outputs({first, second, rows});
  FuseReport report;
  const auto result = fused(rows_last, everything, &report);
  CHECK(joined(*result) == std::vector<size_t>{2});
  CHECK(reports(report, "what else it reads may follow from these rows"));
  check_results(rows_last, *result);
}

TEST_CASE(
    "fuse siblings: random graphs of products and rows and reductions compute what they did") {
  size_t with_siblings = 0, with_products = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    Graph g;
    draw_mixed_graph(g, seed);
    const auto result = fused(g);
    with_siblings += joined(*result).empty() ? 0 : 1;
    with_products += keel_test::count_anchors(*result, keel::kProduct) != 0 ? 1 : 0;
    check_results(g, *result);
  }
  CHECK(with_siblings > 100);
  CHECK(with_products > 100);
}

TEST_CASE("fuse siblings: equal reductions have a result each") {
  Graph g;
  const Value x = g.input("x", keel::f32, {6, 5});
  g.set_outputs({keel::sum(x, {0}), keel::sum(x, {0}), keel::sum(keel::exp(x), {0}),
                 keel::sum(keel::exp(x), {0})});
  const auto result = fused(g);
  CHECK(joined(*result) == std::vector<size_t>{4});
  CHECK(count_op(*only_joined(*result).bodies()[0], "sum") == 4);
  CHECK(count_op(*only_joined(*result).bodies()[0], "exp") == 1);
  check_results(g, *result);
}

TEST_CASE("fuse siblings: three dependent passes over a tensor become two") {
  // The mean, then the mean and the mean square of what is left.
  Graph g;
  const Value x = g.input("x", keel::f32, {6, 5});
  const Value mean = keel::sum(x, {0}, true) / 6.0f;
  const Value rough = x - mean, again = x - mean;
  g.set_outputs({keel::sum(rough, {0}, true), keel::sum(keel::square(again), {0}, true)});
  const auto result = fused(g);
  CHECK(joined(*result) == std::vector<size_t>{2});
  // Both begin with the same difference, which the node computes once.
  for (const Node& node : result->nodes()) {
    if (!keel::is_fused_node(node) || node.types().size() != 2) continue;
    CHECK(count_op(*node.bodies()[0], "sub") == 1);
  }
  check_results(g, *result);
}

TEST_CASE("fuse siblings: what a reduction alone reads leaves the cluster of what is stored") {
  Graph g;
  const Value x = g.input("x", keel::f32, {6, 6});
  const Value y = g.input("y", keel::f32, {6, 6});
  const Value stored = keel::exp(x) + 1.0f;
  g.set_outputs({keel::sum(stored, {0}), keel::sum(stored * y, {0}), keel::matmul(stored, y)});
  const auto result = fused(g);
  CHECK(joined(*result) == std::vector<size_t>{2});
  check_results(g, *result);

  // Where the rest does not store what it reads, it stays: it would be written to be read.
  Graph h;
  const Value z = h.input("x", keel::f32, {6, 6});
  const Value inner = keel::exp(z);
  h.set_outputs({keel::sum(inner * 2.0f, {0}), keel::matmul(inner + 1.0f, z)});
  FuseReport report;
  CHECK(keel_test::count_anchors(*fused(h, everything, &report), keel::kReduction) == 0);
  CHECK(reports(report, "it has other results, too"));

  // And where it would read more than it saves.
  Graph k;
  Values read;
  for (const char* name : {"a", "b", "c"}) read.push_back(k.input(name, keel::f32, {6, 6}));
  const Value kept = keel::exp(read[0]);
  k.set_outputs({keel::sum(kept * read[1] + read[2], {0}), keel::matmul(kept, read[0])});
  CHECK(keel_test::count_anchors(*fused(k), keel::kReduction) == 0);
}

TEST_CASE("fuse siblings: the backend may decline them and takes what it takes") {
  const auto at_most = [](size_t count) {
    return [count](const Node& node) -> Support {
      if (!keel::is_fused_node(node)) return {true, ""};
      return {keel::FusedBody(*node.bodies()[0]).siblings.size() < count, "too many"};
    };
  };
  Graph g;
  const Value x = g.input("x", keel::f32, {6, 5});
  g.set_outputs({keel::sum(x, {0}), keel::sum(keel::square(x), {0}), keel::sum(keel::exp(x), {0}),
                 keel::sum(keel::tanh(x), {0})});
  FuseReport report;
  CHECK(joined(*fused(g, at_most(1), &report)).empty());
  CHECK(reports(report, "(sum) -> %3 (sum): the backend declines: too many"));
  // The rest of what the first would join is joined among itself.
  CHECK(joined(*fused(g, at_most(2))) == std::vector<size_t>{2, 2});
  for (const size_t most : {1u, 2u, 3u, 4u}) check_results(g, *fused(g, at_most(most)));
}

TEST_CASE("fuse siblings: one that is declined for its own sake keeps no other apart") {
  const auto without_tanh = [](const Node& node) -> Support {
    const bool has = keel::is_fused_node(node) && count_op(*node.bodies()[0], "tanh") != 0 &&
                     !keel::FusedBody(*node.bodies()[0]).siblings.empty();
    return {!has, "a tanh"};
  };
  Graph g;
  const Value x = g.input("x", keel::f32, {6, 5});
  g.set_outputs({keel::sum(x, {0}), keel::sum(keel::tanh(x), {0}),
                 keel::sum(keel::tanh(x * 2.0f), {0}), keel::sum(keel::exp(x), {0}),
                 keel::sum(keel::square(x), {0})});
  CHECK(joined(*fused(g, without_tanh)) == std::vector<size_t>{3});
  check_results(g, *fused(g, without_tanh));
}

TEST_CASE("fuse siblings: the backend is asked and the report grows as the reductions do") {
  struct Effort {
    size_t questions = 0, lines = 0;
  };
  const auto effort = [](size_t reductions, bool chained) {
    Graph g;
    const Value x = g.input("x", keel::f32, {6});
    Value total = keel::sum(x);
    for (size_t i = 1; i < reductions; ++i) {
      const Value wide = chained ? x * total : x;
      const Value one = keel::sum(keel::exp(wide * static_cast<float>(i)));
      total = chained ? one : total + one;
    }
    g.set_outputs({total});
    Effort spent;
    FuseReport report;
    fused(
        g,
        [&](const Node& node) -> Support {
          ++spent.questions;
          if (!keel::is_fused_node(node)) return {true, ""};
          return {keel::FusedBody(*node.bodies()[0]).siblings.size() < 4, "too many"};
        },
        &report);
    spent.lines = report.lines.size();
    return spent;
  };
  for (const bool chained : {false, true}) {
    CAPTURE(chained);
    const Effort few = effort(50, chained), many = effort(400, chained);
    CHECK(many.questions <= 12 * few.questions);
    CHECK(many.lines <= 12 * few.lines + 10);
    CHECK(many.lines <= 400 * 10);
  }
}

TEST_CASE("fuse siblings: they come where the first is ahead of products that wait for them") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  const Value total = keel::sum(x, {0}, true);
  const Value product = keel::matmul(x, x);
  const Value squares = keel::sum(keel::square(x), {0}, true);
  g.set_outputs({product * keel::broadcast_to(total, {4, 4}) + squares});
  const auto result = fused(g);
  CHECK(joined(*result) == std::vector<size_t>{2});
  CHECK(keel_test::count_anchors(*result, keel::kProduct) == 1);
  check_results(g, *result);
}

TEST_CASE("fuse siblings: the node prints and parses") {
  Graph g;
  const Value x = g.input("x", keel::f32, {2, 3, 4});
  g.set_outputs({keel::sum(x, {0, 1}), keel::sum(keel::square(x), {0, 1})});
  const auto result = fused(g);
  const std::string text = keel::print_graph(*result);
  const auto parsed = keel::parse_graph(text);
  keel::verify(*parsed);
  CHECK(keel::print_graph(*parsed) == text);
  check_results(g, *parsed);
}

TEST_SUITE_END();
