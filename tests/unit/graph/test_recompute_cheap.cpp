// Cheap values that several clusters or reductions read are computed by each of them; what that is
// not so for stays stored.
#include <rapidcheck.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/ops.h"

#include "support/fusing.h"
#include "support/random_graph.h"

TEST_SUITE_BEGIN("graph");

namespace {

using keel::Graph;
using keel::Node;
using keel::Support;
using keel::SupportsFunction;
using keel::Value;
using keel_test::everything;

// How often the step computes an op.
size_t live_ops(const Graph& g, const std::string& op) {
  const std::vector<bool> live = keel::live_nodes(g);
  size_t count = 0;
  for (const Node& node : g.nodes()) count += live[node.id()] && node.op_name() == op;
  return count;
}

// x less its mean over the rows, and 1 over the root of the mean square of that.
struct Norm {
  Graph g;
  Value x, distances, inverse;

  explicit Norm(Value (*make)(Value) = [](Value v) { return v; }) {
    x = make(g.input("x", keel::f32, {8, 16}));
    distances = x - mean(x, {0}, true);
    inverse = rsqrt(mean(square(distances), {0}, true) + 1e-5f);
  }
  size_t copies(const SupportsFunction& supports = everything) const {
    const auto result = recompute_cheap(g, supports);
    keel::verify(*result);
    return live_ops(*result, "sub");
  }
};

}  // namespace

TEST_CASE("recompute_cheap gives each cluster that reads a cheap value its own") {
  Norm norm;
  norm.g.set_outputs({norm.distances * norm.inverse});
  // For the sum of squares, and for the result.
  CHECK(norm.copies() == 2);
  CHECK(norm.copies([](const Node&) { return Support{false, "no"}; }) == 1);
}

TEST_CASE("recompute_cheap gives reductions and chains of values their own") {
  Norm norm;
  // The mean of the distances reads them; what is normalised with it reads twice as far.
  const Value rest = mean(norm.distances, {0}, true);
  norm.g.set_outputs({(norm.distances - rest) * norm.inverse, sum(norm.distances * 2.0f, {0})});
  // Those for the mean, for the squares, for the result with the second one, and for the sum.
  CHECK(norm.copies() == 5);
}

TEST_CASE("recompute_cheap leaves what is stored anyway") {
  Norm fetched;
  fetched.g.set_outputs({fetched.distances * fetched.inverse, fetched.distances});
  // The sum of squares reads x, as the distances do that are stored.
  CHECK(fetched.copies() == 2);

  Norm multiplied;
  const Value w = multiplied.g.input("w", keel::f32, {16, 4});
  multiplied.g.set_outputs(
      {multiplied.distances * multiplied.inverse, matmul(multiplied.distances, w)});
  CHECK(multiplied.copies() == 2);

  // A product whose result is read by one cluster alone may take that along.
  Graph epilogue;
  const Value x = epilogue.input("x", keel::f32, {8, 16});
  const Value y = matmul(x, epilogue.input("v", keel::f32, {16, 16})) - 1.0f;
  epilogue.set_outputs({mean(y, {0}), y * mean(y, {0}, true)});
  CHECK(live_ops(*recompute_cheap(epilogue, everything), "sub") == 1);

  // States are updated in place where nobody reads them later.
  Graph state;
  const Value s = state.state("s", keel::zeros({8, 16}));
  const Value less = s - 1.0f;
  state.set_outputs({less * mean(less, {0}, true)});
  CHECK(live_ops(*recompute_cheap(state, everything), "sub") == 1);
}

TEST_CASE("recompute_cheap leaves narrow values and those of as large operands") {
  Graph narrow;
  const Value x = narrow.input("x", keel::f32, {8, 16});
  const Value positive = greater(x, 0.0f);
  const Value dear = exp(select(positive, x, 1.0f));
  narrow.set_outputs({select(positive, x, mean(dear, {0}, true))});
  CHECK(live_ops(*recompute_cheap(narrow, everything), "greater") == 1);

  Graph wide;
  const Value a = wide.input("a", keel::f32, {1, 8, 16}), b = wide.input("b", keel::f32, {8, 16});
  const Value both = a - b;
  wide.set_outputs({both * mean(both, {1}, true), exp(a)});
  CHECK(live_ops(*recompute_cheap(wide, everything), "sub") == 1);

  Graph updated;
  const Value y = updated.input("y", keel::f32, {8, 16});
  const Value less = y - updated.state("s", keel::zeros({16}));
  updated.set_outputs({less * mean(less, {0}, true)});
  CHECK(live_ops(*recompute_cheap(updated, everything), "sub") == 1);
}

TEST_CASE("recompute_cheap leaves what costs more than it saves") {
  Norm dear([](Value x) { return exp(x); });
  dear.g.set_outputs({dear.distances * dear.inverse});
  const auto result = recompute_cheap(dear.g, everything);
  CHECK(live_ops(*result, "exp") == 1);

  Graph two;
  const Value x = two.input("x", keel::f32, {8, 16}), y = two.input("y", keel::f32, {8, 16});
  const Value both = x - y;
  two.set_outputs({both * mean(both, {0}, true)});
  CHECK(live_ops(*recompute_cheap(two, everything), "sub") == 1);

  Graph longer;
  const Value z = longer.input("z", keel::f32, {8, 16});
  Value chain = z;
  for (int i = 0; i < 7; ++i) chain = chain - static_cast<float>(i);
  longer.set_outputs({chain * mean(chain, {0}, true)});
  CHECK(live_ops(*recompute_cheap(longer, everything), "sub") == 7);
}

TEST_CASE("recompute_cheap changes no bit of random graphs") {
  CHECK(rc::check("recompute_cheap", [](uint64_t seed) {
    const auto random = keel_test::random_graph(seed, 60);
    const auto result = recompute_cheap(*random.graph, everything);
    keel::verify(*result);
    RC_ASSERT(keel_test::all_bit_equal(keel_test::evaluate(*random.graph, random.feeds),
                                       keel_test::evaluate(*result, random.feeds)));
  }));
}

TEST_SUITE_END();
