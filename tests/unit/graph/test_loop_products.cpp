// What a loop's gradient keeps of the products in its body, or of what is made of one alone: they
// are computed once, the bits are those of computing them again, and a budget, a bound that is no
// count, and a block that is to be computed again leave them out.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/passes/passes.h"

#include "fused_step_for_tests.h"
#include "ops_for_tests.h"

namespace keel {
namespace {

constexpr int64_t kTurns = 6, kRows = 5, kUnits = 8;
constexpr int64_t kState = kRows * kUnits * 4, kSums = kRows * 4 * kUnits * 4;  // bytes, of a turn

struct Options {
  WhileOptions loop = {.trip_count = kTurns};
  bool again = false;  // in a RecomputeScope
};

// A cell with gates: four parts of the sum of two products and a bias.
Values cell(const Value& x, const Values& state, const Values& weights) {
  const Value sums = matmul(x, weights[0]) + matmul(state[0], weights[1]) + weights[2];
  const auto gate = [&](int64_t i) {
    return slice(sums, {0, i * kUnits}, {kRows, (i + 1) * kUnits});
  };
  const Value memory = sigmoid(gate(0)) * state[1] + sigmoid(gate(1)) * tanh(gate(2));
  return {sigmoid(gate(3)) * tanh(memory), memory};
}

// The loss of a few turns, and its gradients.
Values step(Graph& g, const Options& options) {
  const Value x = g.input("x", f32, {kRows, 3});
  const Values weights = {g.input("w", f32, {3, 4 * kUnits}),
                          g.input("u", f32, {kUnits, 4 * kUnits}), g.input("b", f32, {4 * kUnits})};
  const Value start = g.input("start", f32, {kRows, kUnits});
  const Values last = while_loop(
      {start, start}, [](const Values& v) { return less(sum(v[0]), 1e9); },
      [&](const Values& v) {
        if (!options.again) return cell(x, v, weights);
        const RecomputeScope scope(x.graph());
        return cell(x, v, weights);
      },
      options.loop);
  const Value loss = sum(last[0] * last[1]);
  Values results = gradients(loss, {x, weights[0], weights[1], weights[2], start});
  results.push_back(loss);
  return results;
}

std::vector<Tensor> operands() {
  std::vector<Tensor> tensors;
  for (const Shape& shape : {Shape{kRows, 3}, Shape{3, 4 * kUnits}, Shape{kUnits, 4 * kUnits},
                             Shape{4 * kUnits}, Shape{kRows, kUnits}}) {
    Tensor t(f32, shape);
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.set(i, static_cast<double>(i * 29 % 83) / 60 - 0.7);
    tensors.push_back(t);
  }
  return tensors;
}

using Counted = bool (*)(const Node&);
bool is_product(const Node& node) { return node.has(kProduct); }

int64_t count_in(const Graph& graph, Counted counted) {
  int64_t count = 0;
  for (const Node& node : graph.nodes()) {
    count += counted(node) ? 1 : 0;
    for (const auto& body : node.bodies()) count += count_in(*body, counted);
  }
  return count;
}

// The nodes of the loop that runs backwards, and of those in it.
int64_t nodes_on_the_way_back(const Options& options, Counted counted) {
  Graph g;
  const Values fetches = step(g, options);
  std::map<std::string, Type> types;
  for (const Value& v : g.inputs()) types[full_name(v.node())] = v.type();
  const auto graph =
      specialise({.graph = &g, .fetches = fetches, .update = {}, .input_types = types});
  int64_t last = 0;
  for (const Node& node : graph->nodes()) {
    if (node.is(OpRole::kWhile)) last = count_in(*node.bodies()[1], counted);
  }
  return last;
}

int64_t products_on_the_way_back(const Options& options) {
  return nodes_on_the_way_back(options, is_product);
}

std::vector<Tensor> run_with(const Options& options, const std::string& where, bool fuse) {
  return testing::run_case({[&](Graph& g) {
                              return std::pair{Update{}, step(g, options)};
                            },
                            operands()},
                           where, fuse);
}

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("the gradient of a loop multiplies forwards only once") {
  // What does not change from turn to turn, x times w among it, is computed outside of the loops.
  // So there are the gradients of u and of the state, and the product of both where it is not kept.
  CHECK(products_on_the_way_back({}) == 2);
  CHECK(products_on_the_way_back({.again = true}) == 3);
  // A loop that may have no turn computes x times w in its own turns, and their gradients, too.
  CHECK(products_on_the_way_back({.loop = {.max_trips = kTurns}}) == 6);
  // Segments run forwards once more before they run back.
  CHECK(products_on_the_way_back({.loop = {.trip_count = kTurns, .recompute_every = 2}}) == 4);
  const int64_t states = 2 * kTurns * kState;
  const auto with_budget = [](int64_t bytes) {
    return Options{.loop = {.trip_count = kTurns, .memory_budget_bytes = bytes}};
  };
  CHECK(products_on_the_way_back(with_budget(states + kTurns * kSums)) == 2);
  CHECK(products_on_the_way_back(with_budget(states + kTurns * kSums - 1)) == 3);
}

TEST_CASE("the gradient of a loop keeps activated gates where they are no larger than their sums") {
  const Counted sigmoids = [](const Node& node) { return node.op().name == "sigmoid"; };
  const Counted tanhs = [](const Node& node) { return node.op().name == "tanh"; };
  const Counted slices = [](const Node& node) { return node.op().name == "slice"; };
  CHECK(nodes_on_the_way_back({}, sigmoids) == 0);
  CHECK(nodes_on_the_way_back({}, tanhs) == 1);  // of the memory, which two products make
  CHECK(nodes_on_the_way_back({}, slices) == 0);
  const Options again{.again = true};
  CHECK(nodes_on_the_way_back(again, sigmoids) == 3);
  CHECK(nodes_on_the_way_back(again, tanhs) == 2);
  CHECK(nodes_on_the_way_back(again, slices) == 4);
}

TEST_CASE("products that are kept give the bits of those computed again") {
  const Options again{.loop = {.trip_count = kTurns, .memory_budget_bytes = 2 * kTurns * kState}};
  for (const char* where : {"ref", "cpu", "npu"}) {
    for (const bool fuse : {false, true}) {
      CAPTURE(where);
      CAPTURE(fuse);
      CHECK(testing::all_equal(run_with({}, where, fuse), run_with(again, where, fuse)));
    }
  }
}

TEST_CASE("gradients of gradients pass through products that are kept") {
  const auto second = [](const std::string& where, const Options& options) {
    return testing::run_case(
        {[&](Graph& g) {
           const Values first = step(g, options);
           Value total = sum(square(first[1])) + sum(first[2] * first[2]);
           return std::pair{Update{}, gradients(total, {g.inputs()[0], g.inputs()[2]})};
         },
         operands()},
        where, true);
  };
  const Options again{.loop = {.trip_count = kTurns, .memory_budget_bytes = 2 * kTurns * kState}};
  const std::vector<Tensor> expected = second("ref", again), got = second("ref", {});
  for (size_t i = 0; i < expected.size(); ++i) {
    for (int64_t at = 0; at < expected[i].num_elements(); ++at)
      CHECK(got[i].at(at) == doctest::Approx(expected[i].at(at)).epsilon(1e-4));
  }
}

TEST_SUITE_END();

}  // namespace keel
