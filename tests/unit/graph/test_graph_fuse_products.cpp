// The pass that gives products what is computed beside them: what it takes together, what it leaves
// apart and why, and that the graph computes what it did.
#include <doctest/doctest.h>

#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
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
using keel::Tensor;
using keel::Value;
using keel_test::all_bit_equal;
using keel_test::count_op;
using keel_test::evaluate;
using keel_test::everything;
using keel_test::fused_products;
using keel_test::reports;

// As a backend that loads bytes, and no other dtype, through ops.
Support only_byte_loads(const Node& node) {
  const Node* product = keel_test::anchor_of(node);
  if (product == nullptr) return {true, ""};
  for (size_t i = 0; i < product->inputs().size(); ++i) {
    const bool loads = product->input(i).node().op_name() != "input";
    if (loads && node.input(i).dtype() != keel::u8) return {false, "not bytes"};
  }
  return {true, ""};
}

const Node& only_product(const Graph& g) { return keel_test::only_anchored(g, keel::kProduct); }
size_t count_products(const Graph& g) { return keel_test::count_anchors(g, keel::kProduct); }
bool is_fused_product(const Node& node) { return keel_test::anchor_of(node) != nullptr; }

Tensor straight_ramp(const Shape& shape, double first, double step) {
  Tensor t(keel::f32, shape);
  float* data = t.data<float>().data();
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    data[i] = static_cast<float>(first + step * static_cast<double>(i));
  }
  return t;
}

}  // namespace

TEST_CASE("fuse products: bias and activation follow the product") {
  Graph g;
  const Value x = g.input("x", keel::f32, {3, 5});
  const Value w = g.input("w", keel::f32, {5, 4});
  const Value b = g.input("b", keel::f32, {4});
  g.set_outputs({keel::tanh(keel::matmul(x, w) + b)});
  const auto result = fused_products(g);
  const Node& node = only_product(*result);
  CHECK(result->size() == 4);
  CHECK(node.inputs().size() == 3);
  CHECK(count_op(*node.bodies()[0], "tanh") == 1);
  CHECK(result->outputs()[0] == node.output());
  const keel_test::Feeds feeds{{"x", straight_ramp({3, 5}, -1, 0.1)},
                               {"w", straight_ramp({5, 4}, 1, -0.07)},
                               {"b", straight_ramp({4}, 0, 0.5)}};
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*result, feeds)));
}

TEST_CASE("fuse products: an update follows the product that makes its gradient") {
  Graph g;
  const Value x = g.input("x", keel::f32, {3, 5});
  const Value d = g.input("d", keel::f32, {3, 4});
  const Value w = g.state("w", {.type = {keel::f32, Shape{5, 4}}});
  g.add_update(w, w - keel::matmul(x, d, {.transpose_a = true}) * 0.5f);
  const auto result = fused_products(g);
  const Node& node = only_product(*result);
  CHECK(result->updates()[0].next == node.output());
  CHECK(node.input(2).node().op_name() == "state");
}

TEST_CASE("fuse products: bytes are scaled as all products load them") {
  Graph g;
  const Value x = g.input("x", keel::u8, {3, 5});
  const Value w = g.input("w", keel::f32, {5, 4});
  const Value d = g.input("d", keel::f32, {3, 4});
  const Value scaled = keel::cast(x, keel::f32) / 255.0f;
  g.set_outputs({keel::matmul(scaled, w), keel::matmul(scaled, d, {.transpose_a = true})});
  const auto result = fused_products(g, only_byte_loads);
  CHECK(count_products(*result) == 2);
  CHECK(count_op(*result, "fused") == 2);
  CHECK(count_op(*result, "cast") == 0);
  Tensor bytes(keel::u8, {3, 5});
  for (int i = 0; i < 15; ++i)
    bytes.data<uint8_t>()[static_cast<size_t>(i)] = static_cast<uint8_t>(17 * i);
  const keel_test::Feeds feeds{
      {"x", bytes}, {"w", straight_ramp({5, 4}, 1, -0.07)}, {"d", straight_ramp({3, 4}, 0, 0.5)}};
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*result, feeds)));
}

TEST_CASE("fuse products: a load that something else reads stays a task of its own") {
  Graph g;
  const Value x = g.input("x", keel::u8, {3, 5});
  const Value w = g.input("w", keel::f32, {5, 4});
  const Value scaled = keel::cast(x, keel::f32) / 255.0f;
  g.set_outputs({keel::matmul(scaled, w), keel::sum(scaled)});
  const auto result = fused_products(g, only_byte_loads);
  CHECK(count_products(*result) == 0);
  CHECK(count_op(*result, "fused") == 1);
}

TEST_CASE("fuse products: rows that only loads read are gathered as they are loaded") {
  Graph g;
  const Value table = g.input("table", keel::u8, {9, 5});
  const Value rows = g.input("rows", keel::i32, {3});
  const Value w = g.input("w", keel::f32, {5, 4});
  const Value d = g.input("d", keel::f32, {3, 4});
  const Value scaled = keel::cast(keel::gather(table, rows), keel::f32) / 255.0f;
  g.set_outputs({keel::matmul(scaled, w), keel::matmul(scaled, d, {.transpose_a = true})});
  const auto result = fused_products(g, only_byte_loads);
  CHECK(count_products(*result) == 2);
  CHECK(count_op(*result, "gather") == 0);
  Tensor bytes(keel::u8, {9, 5});
  for (int64_t i = 0; i < 45; ++i) bytes.set(i, static_cast<double>(5 * i));
  const keel_test::Feeds feeds{{"table", bytes},
                               {"rows", Tensor::of<int32_t>({3}, {8, 0, 8})},
                               {"w", straight_ramp({5, 4}, 1, -0.07)},
                               {"d", straight_ramp({3, 4}, 0, 0.5)}};
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*result, feeds)));

  // What else reads the rows needs them in memory; the loads then read them there.
  Graph h;
  const Value images = h.input("table", keel::u8, {9, 5});
  const Value taken = keel::gather(images, h.input("rows", keel::i32, {3}));
  const Value weights = h.input("w", keel::f32, {5, 4});
  h.set_outputs({keel::matmul(keel::cast(taken, keel::f32) / 255.0f, weights), taken});
  const auto apart = fused_products(h, only_byte_loads);
  CHECK(count_op(*apart, "gather") == 1);
  CHECK(count_products(*apart) == 1);
}

TEST_CASE("fuse products: all products that read a load take it or none") {
  Graph g;
  const Value x = g.input("x", keel::u8, {4, 4});
  const Value w = g.input("w", keel::f32, {4, 4});
  const Value scaled = keel::cast(x, keel::f32) / 255.0f;
  // This backend loads bytes as the left operand only.
  const auto left_only = [](const Node& node) -> Support {
    if (!is_fused_product(node) || node.input(1).dtype() != keel::u8) return {true, ""};
    return {false, "left operands only"};
  };
  g.set_outputs({keel::matmul(scaled, w), keel::matmul(w, scaled)});
  FuseReport report;
  const auto result = fused_products(g, left_only, &report);
  CHECK(count_products(*result) == 0);
  CHECK(reports(report, "the backend declines: left operands only"));
}

TEST_CASE("fuse products: where a load is given up the products beside it are asked again") {
  Graph g;
  const Value w = g.input("w", keel::f32, {4, 4});
  const Value a = keel::cast(g.input("a", keel::u8, {4, 4}), keel::f32) / 255.0f;
  const Value b = keel::cast(g.input("b", keel::u8, {4, 4}), keel::f32) / 255.0f;
  // This backend loads bytes on both sides, or on the left.
  const auto not_right_alone = [](const Node& node) -> Support {
    const bool right = is_fused_product(node) && node.input(1).dtype() == keel::u8;
    if (!right || node.input(0).dtype() == keel::u8) return {true, ""};
    return {false, "not on the right alone"};
  };
  // The first would load both, if the second did not need `a` in memory.
  g.set_outputs({keel::matmul(a, b), keel::matmul(w, a)});
  FuseReport report;
  CHECK(count_products(*fused_products(g, not_right_alone, &report)) == 0);
  CHECK(report.lines.size() == 2);
}

TEST_CASE("fuse products: a load that is refused leaves that of the other operand") {
  Graph g;
  const Value a = keel::cast(g.input("a", keel::u8, {4, 4}), keel::f32) / 255.0f;
  const Value b = keel::cast(g.input("b", keel::u8, {4, 4}), keel::f32) / 255.0f;
  const auto not_left = [](const Node& node) -> Support {
    if (!is_fused_product(node) || node.input(0).dtype() != keel::u8) return {true, ""};
    return {false, "not on the left"};
  };
  g.set_outputs({keel::matmul(a, b)});
  FuseReport report;
  const auto result = fused_products(g, not_left, &report);
  REQUIRE(count_products(*result) == 1);
  CHECK(only_product(*result).input(0).dtype() == keel::f32);
  CHECK(only_product(*result).input(1).dtype() == keel::u8);
  CHECK(report.lines.size() == 1);
}

TEST_CASE("fuse products: what is declined is told in the order of the graph") {
  const auto lines = [] {
    Graph g;
    const Value rows = g.input("rows", keel::i32, {4});
    keel::Values outputs;
    for (int i = 0; i < 6; ++i) {
      const std::string name = std::to_string(i);
      const Value table = g.input("t" + name, keel::u8, {9, 4});
      const Value x = keel::cast(keel::gather(table, rows), keel::f32) / 255.0f;
      outputs.push_back(keel::matmul(x, g.input("w" + name, keel::f32, {4, 4})));
    }
    g.set_outputs(outputs);
    const auto no_rows = [](const Node& node) -> Support {
      if (!is_fused_product(node) || node.inputs().size() < 3) return {true, ""};
      return {false, "no rows"};
    };
    FuseReport report;
    fused_products(g, no_rows, &report);
    std::erase_if(report.lines, [](const std::string& line) {
      return !keel_test::contains(line, "the backend declines");
    });
    return report.lines;
  };
  const std::vector<std::string> first = lines();
  REQUIRE(first.size() == 6);
  for (int again = 0; again < 5; ++again) CHECK(lines() == first);
  const auto gather = [&](size_t line) {
    return std::stoi(first[line].substr(first[line].find('%') + 1));
  };
  for (size_t i = 1; i < first.size(); ++i) CHECK(gather(i) > gather(i - 1));
}

TEST_CASE("fuse products: what else reads a product keeps it apart and says so") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  const Value product = keel::matmul(x, x);
  g.set_outputs({keel::exp(product), keel::sum(product)});
  FuseReport report;
  const auto result = fused_products(g, everything, &report);
  CHECK(count_products(*result) == 0);
  CHECK(reports(report, "reads it, too"));

  Graph fetched;
  const Value y = fetched.input("y", keel::f32, {4, 4});
  const Value square = keel::matmul(y, y);
  fetched.set_outputs({keel::exp(square), square});
  FuseReport why;
  CHECK(count_products(*fused_products(fetched, everything, &why)) == 0);
  CHECK(reports(why, "a result of the step"));
}

TEST_CASE("fuse products: a cluster goes with one of its products") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  const Value y = g.input("y", keel::f32, {4, 4});
  g.set_outputs({keel::tanh(keel::matmul(x, y) + keel::matmul(y, x))});
  FuseReport report;
  const auto result = fused_products(g, everything, &report);
  CHECK(count_products(*result) == 1);
  CHECK(count_op(*result, "matmul") == 1);
  CHECK(reports(report, "another product is computed with it"));
  const keel_test::Feeds feeds{{"x", straight_ramp({4, 4}, -1, 0.1)},
                               {"y", straight_ramp({4, 4}, 1, -0.07)}};
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*result, feeds)));
}

TEST_CASE("fuse products: what reads a product twice is its epilogue still") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  const Value product = keel::matmul(x, x);
  g.set_outputs({product * product});
  const auto result = fused_products(g);
  CHECK(only_product(*result).inputs().size() == 1);
  const keel_test::Feeds feeds{{"x", straight_ramp({4, 4}, -1, 0.1)}};
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*result, feeds)));
}

TEST_CASE("fuse products: a backend that declines keeps its tasks") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  g.set_outputs({keel::tanh(keel::matmul(x, x))});
  const auto declines = [](const Node& node) -> Support {
    return is_fused_product(node) ? Support{false, "too wide"} : Support{true, ""};
  };
  FuseReport report;
  const auto result = fused_products(g, declines, &report);
  CHECK(count_products(*result) == 0);
  CHECK(count_op(*result, "matmul") == 1);
  CHECK(reports(report, "the backend declines: too wide"));
}

namespace {

// Logits of a product, and what their loss reads.
struct ProductClassifier {
  Graph g;
  Value x, w, b, labels, logits;
  ProductClassifier() {
    x = g.input("x", keel::f32, {3, 5});
    w = g.input("w", keel::f32, {5, 4});
    b = g.input("b", keel::f32, {4});
    labels = g.input("labels", keel::i32, {3});
    logits = keel::matmul(x, w) + b;
  }
  Value loss() { return keel::softmax_cross_entropy(logits, labels); }
  Value gradient(const Value& upstream) {
    return keel::softmax_cross_entropy_grad(logits, labels, upstream);
  }
  keel_test::Feeds feeds() const {
    return {{"x", straight_ramp({3, 5}, -1, 0.1)},
            {"w", straight_ramp({5, 4}, 1, -0.07)},
            {"b", straight_ramp({4}, 0, 0.5)},
            {"labels", Tensor::of<int32_t>({3}, {1, 3, 0})}};
  }
};

size_t count_in_body(const Graph& g, const std::string& op) {
  return count_op(*only_product(g).bodies()[0], op);
}

}  // namespace

TEST_CASE("fuse products: a loss of rows and its gradient follow the product") {
  ProductClassifier c;
  const Value loss = c.loss();
  const Value mean = keel::sum(loss) * (1.0f / 3.0f);
  // What the gradient reads is younger than the loss, and does not follow from it.
  const Value upstream = keel::exp(c.b.graph().input("u", keel::f32, {3}));
  c.g.set_outputs({mean, c.gradient(upstream)});
  FuseReport report;
  const auto result = fused_products(c.g, everything, &report);
  CHECK(count_in_body(*result, "softmax_cross_entropy") == 1);
  CHECK(count_in_body(*result, "softmax_cross_entropy_grad") == 1);
  CHECK(count_in_body(*result, "add") == 1);
  const Node& node = only_product(*result);
  CHECK(node.types().size() == 2);  // the logits do not leave
  CHECK(node.input(4).node().op_name() == "exp");
  CHECK_FALSE(reports(report, "(add) -> "));
  keel_test::Feeds feeds = c.feeds();
  feeds["u"] = straight_ramp({3}, -1, 0.5);
  CHECK(all_bit_equal(evaluate(c.g, feeds), evaluate(*result, feeds)));
}

TEST_CASE("fuse products: a gradient that follows from the loss stays behind it") {
  ProductClassifier c;
  const Value loss = c.loss();
  c.g.set_outputs({c.gradient(loss * loss)});
  FuseReport report;
  const auto result = fused_products(c.g, everything, &report);
  CHECK(count_in_body(*result, "softmax_cross_entropy") == 1);
  CHECK(count_op(*result, "softmax_cross_entropy_grad") == 1);
  CHECK(only_product(*result).types().size() == 2);  // the loss, and the logits for the gradient
  CHECK(reports(report, "what else it reads may follow from these rows"));
  CHECK(all_bit_equal(evaluate(c.g, c.feeds()), evaluate(*result, c.feeds())));
}

TEST_CASE("fuse products: two products whose rows need each other do not both take them") {
  ProductClassifier c;
  const Value v = c.g.input("v", keel::f32, {5, 4});
  const Value other = keel::matmul(c.x, v);
  const Value loss = c.loss(), other_loss = keel::softmax_cross_entropy(other, c.labels);
  c.g.set_outputs(
      {c.gradient(other_loss), keel::softmax_cross_entropy_grad(other, c.labels, loss)});
  const auto result = fused_products(c.g);
  CHECK(count_products(*result) == 2);
  CHECK(count_op(*result, "softmax_cross_entropy_grad") == 1);
  keel_test::Feeds feeds = c.feeds();
  feeds["v"] = straight_ramp({5, 4}, -2, 0.2);
  CHECK(all_bit_equal(evaluate(c.g, feeds), evaluate(*result, feeds)));
}

TEST_CASE("fuse products: rows leave as well where something else reads them") {
  ProductClassifier c;
  c.g.set_outputs({c.loss(), keel::argmax(c.logits, 1)});
  const auto result = fused_products(c.g);
  CHECK(only_product(*result).types().size() == 2);
  CHECK(all_bit_equal(evaluate(c.g, c.feeds()), evaluate(*result, c.feeds())));

  // Without a bias, and with an element-wise user beside.
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  const Value product = keel::matmul(x, x);
  g.set_outputs({keel::softmax(product), keel::log_softmax(product), keel::exp(product)});
  const auto direct = fused_products(g);
  CHECK(only_product(*direct).types().size() == 3);
  CHECK(count_op(*direct, "exp") == 1);
  const keel_test::Feeds feeds{{"x", straight_ramp({4, 4}, -1, 0.1)}};
  CHECK(all_bit_equal(evaluate(g, feeds), evaluate(*direct, feeds)));
}

TEST_CASE("fuse products: a backend that declines rows keeps the epilogue") {
  ProductClassifier c;
  c.g.set_outputs({c.loss()});
  const auto no_rows = [](const Node& node) -> Support {
    const bool rows =
        is_fused_product(node) && count_op(*node.bodies()[0], "softmax_cross_entropy") != 0;
    return rows ? Support{false, "no rows"} : Support{true, ""};
  };
  FuseReport report;
  const auto result = fused_products(c.g, no_rows, &report);
  CHECK(count_in_body(*result, "add") == 1);
  CHECK(count_op(*result, "softmax_cross_entropy") == 1);
  CHECK(reports(report, "the backend declines: no rows"));
  CHECK(all_bit_equal(evaluate(c.g, c.feeds()), evaluate(*result, c.feeds())));
}

TEST_CASE("fuse products: rows that no product makes are told") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  g.set_outputs({keel::softmax(x + x)});
  FuseReport report;
  fused_products(g, everything, &report);
  CHECK(reports(report, "no product makes these rows"));
}

TEST_CASE("fuse products: what rows need is not looked for without end") {
  ProductClassifier c;
  Value upstream = c.b.graph().input("u", keel::f32, {3});
  for (int i = 0; i < 200; ++i) {  // views keep these apart
    upstream = keel::reshape(keel::tanh(keel::reshape(upstream, {3, 1})), {3});
  }
  c.g.set_outputs({c.loss(), c.gradient(upstream)});
  FuseReport report;
  const auto result = fused_products(c.g, everything, &report);
  CHECK(count_op(*result, "softmax_cross_entropy_grad") == 1);
  CHECK(reports(report, "what else it reads may follow from these rows"));
}

TEST_CASE("fuse products: what reads a loss of rows and is not fused is told") {
  Graph g;
  const Value x = g.input("x", keel::f32, {8, 4});
  const Value labels = g.input("labels", keel::i32, {8});
  g.set_outputs({keel::softmax_cross_entropy(x * 2.0f, labels) * 3.0f});
  FuseReport report;
  fused_products(g, everything, &report);
  CHECK(reports(report, "(softmax_cross_entropy) -> "));
  CHECK(reports(report, "(softmax_cross_entropy): no product makes these rows"));
}

TEST_SUITE_END();
