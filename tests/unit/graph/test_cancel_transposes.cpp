// cancel_transposes: which transpositions go, what stays where nothing turns them back, and that
// results have the same bits.
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/graph.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/ops.h"

#include "support/evaluate_graph.h"

TEST_SUITE_BEGIN("graph");

namespace {

using keel::Graph;
using keel::Shape;
using keel::Tensor;
using keel::Value;
using keel::Values;
using keel_test::count_op;

const std::vector<int64_t> kToLast = {0, 2, 3, 1}, kToFirst = {0, 3, 1, 2};
const Shape kLast{2, 4, 5, 3}, kFirst{2, 3, 4, 5};

Tensor repeating_numbers(const Shape& shape) {
  Tensor t(keel::f32, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, static_cast<double>(i % 17) / 8 - 1);
  return t;
}

const keel_test::Feeds kFeeds = {{"x", repeating_numbers(kLast)},
                                 {"y", repeating_numbers(kLast)},
                                 {"full", repeating_numbers(kFirst)},
                                 {"channels", repeating_numbers({3, 1, 1})},
                                 {"rows", repeating_numbers({1, 1, 4, 5})}};

size_t transposes_of(const Graph& graph) {
  size_t count = count_op(graph, "transpose");
  for (const keel::Node& node : graph.nodes()) {
    for (const auto& body : node.bodies()) count += transposes_of(*body);
  }
  return count;
}

// Checks that so many transpositions are left, and that the outputs keep their bits.
void check_left(const Graph& g, size_t left) {
  const auto fewer = keel::cancel_transposes(g);
  REQUIRE((fewer != nullptr));
  keel::verify(*fewer);
  CHECK(transposes_of(*fewer) == left);
  CHECK(keel_test::all_bit_equal(keel_test::evaluate(*fewer, kFeeds),
                                 keel_test::evaluate(g, kFeeds)));
}

Value image_input(Graph& g, const char* name = "x") { return g.input(name, keel::f32, kLast); }

}  // namespace

TEST_CASE("a transposition goes where element-wise work is between it and what turns it back") {
  Graph g;
  const Value first = keel::transpose(image_input(g), kToFirst);
  const Value channels = g.input("channels", keel::f32, {3, 1, 1});
  const Value work = keel::relu(first * channels + 0.5f);
  g.set_outputs({keel::exp(keel::transpose(work, kToLast))});
  check_left(g, 0);
}

TEST_CASE("operands that are turned alike meet before they are turned") {
  Graph g;
  const Value first = keel::transpose(image_input(g), kToFirst);
  const Value other = keel::tanh(keel::transpose(image_input(g, "y"), kToFirst));
  const Value sum = keel::relu(first + other);
  g.set_outputs({keel::transpose(sum, kToLast), keel::transpose(keel::exp(sum), kToLast)});
  check_left(g, 0);
}

TEST_CASE("what others read is turned for them") {
  Graph g;
  const Value first = keel::transpose(image_input(g), kToFirst);
  const Value work = keel::relu(first);
  g.set_outputs({keel::exp(keel::transpose(work, kToLast)), work});
  check_left(g, 1);
}

TEST_CASE("transpositions stay where nothing turns them back or an operand is not turned") {
  Graph g;
  const Value first = keel::transpose(image_input(g), kToFirst);
  g.set_outputs({keel::relu(first), keel::transpose(keel::relu(first), kToFirst)});
  CHECK(keel::cancel_transposes(g) == nullptr);
  Graph other;
  const Value turned = keel::transpose(image_input(other), kToFirst);
  const Value full = other.input("full", keel::f32, kFirst);
  other.set_outputs({keel::transpose(turned + full, kToLast)});
  CHECK(keel::cancel_transposes(other) == nullptr);
}

TEST_CASE("operands of several axes are turned by their shape where their order stays") {
  Graph g;
  const Value rows = g.input("rows", keel::f32, {1, 1, 4, 5});
  g.set_outputs({keel::transpose(keel::transpose(image_input(g), kToFirst) * rows, kToLast)});
  check_left(g, 0);
  Graph swapped;
  const Value x = swapped.input("x", keel::f32, kLast);
  const Value turned = keel::transpose(x, {0, 2, 1, 3});
  const Value both = swapped.constant(repeating_numbers({5, 4, 1}));
  swapped.set_outputs({keel::transpose(turned * both, {0, 2, 1, 3})});
  CHECK(keel::cancel_transposes(swapped) == nullptr);
}

TEST_CASE("transpositions in bodies go as well") {
  Graph g;
  const Values turns = keel::while_loop(
      {image_input(g)}, [](const Values& v) { return keel::less(keel::max(v[0]), 3.0f); },
      [](const Values& v) {
        const Value more = keel::transpose(v[0], kToFirst) + 1.0f;
        return Values{keel::transpose(more, kToLast)};
      });
  g.set_outputs({turns[0]});
  check_left(*keel::specialise(
                 {.graph = &g, .fetches = g.outputs(), .input_types = {{"x", {keel::f32, kLast}}}}),
             0);
}

TEST_SUITE_END();
