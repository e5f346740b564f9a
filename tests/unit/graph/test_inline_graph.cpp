// inline_graph: a graph as a part of another, against the same ops built where they are used.
#include <memory>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/graph.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("unit");

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

// y = x w + x, three times over in a loop.
struct Called {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Value x, y, noise;

  Called() {
    x = graph->input("x", f32, {-1, 2});
    const Value w = graph->state("w", {.type = {f32, {2, 2}}, .a = 0.5});
    y = while_loop(
        {x}, [&](const Values& v) { return v[0].graph().constant(Tensor::full(boolean, {}, 1)); },
        [&](const Values& v) { return Values{matmul(v[0], w) + v[0]}; }, {.trip_count = 3})[0];
    noise = uniform(*graph, {4});
  }
};

Tensor numbers() { return Tensor::of<float>({1, 2}, {1, -2}); }

}  // namespace

TEST_CASE("an inlined graph computes what it computes alone and outlives its source") {
  Graph graph;
  const Value x = graph.input("image", f32, {-1, 2});
  Value y, doubled;
  {
    const Called called;
    y = inline_graph(graph, *called.graph, {called.y}, {{called.x, x}})[0];
    doubled = inline_graph(graph, *called.graph, {called.y}, {{called.x, x * 2.0f}})[0];
  }
  CHECK(graph.states().size() == 1);
  const Value w = graph.find_state("w");
  const Value slope = gradients(sum(y), {w})[0];
  Session session(graph, device("cpu"));
  const auto results = session.run({y, doubled, slope}, {{x, numbers()}});
  // The matrix m of 0.5 is its own square, so (1 + m)^3 = 1 + 7 m; [1, -2] m = [-0.5, -0.5].
  CHECK(results[0].at(0) == doctest::Approx(1 - 3.5));
  CHECK(results[0].at(1) == doctest::Approx(-2 - 3.5));
  CHECK(results[1].at(0) == doctest::Approx(2 - 7.0));
  // d sum(x (1 + w)^3) / dw by central differences.
  const auto loss = [&](float w0) {
    session.write(w, Tensor::of<float>({2, 2}, {w0, 0.5f, 0.5f, 0.5f}));
    const Tensor rows = session.run(y, {{x, numbers()}});
    return rows.at(0) + rows.at(1);
  };
  CHECK(results[2].at(0) == doctest::Approx((loss(0.51f) - loss(0.49f)) / 0.02).epsilon(1e-3));
}

TEST_CASE("random ops of an inlined graph draw numbers of their own") {
  const Called called;
  Graph graph;
  const Value own = uniform(graph, {4});
  const Value first = inline_graph(graph, *called.graph, {called.noise}, {})[0];
  const Value second = inline_graph(graph, *called.graph, {called.noise}, {})[0];
  Session session(graph, device("cpu"));
  const auto drawn = session.run({own, first, second}, {});
  CHECK(drawn[0].at(0) != drawn[1].at(0));
  CHECK(drawn[0].at(0) != drawn[2].at(0));
  CHECK(drawn[1].at(0) != drawn[2].at(0));
}

TEST_CASE("inline_graph refuses what does not fit and names the line") {
  const Called called;
  Graph graph;
  const Value x = graph.input("image", f32, {-1, 3});
  const auto refused = [&](const std::vector<std::pair<Value, Value>>& inputs) {
    return error_of([&] { inline_graph(graph, *called.graph, {called.y}, inputs); });
  };
  CHECK(contains(refused({}), "input 'x'"));
  CHECK(contains(refused({{called.x, x}}), "f32[?, 3]"));
  CHECK(contains(refused({{called.x, x}}), "test_inline_graph.cpp"));
  CHECK(contains(refused({{called.y, called.y}}), "inline_graph"));
  graph.state("w", {.type = {f32, {5}}});
  CHECK(contains(refused({{called.x, graph.input("fits", f32, {-1, 2})}}), "state 'w'"));
}

TEST_SUITE_END();

}  // namespace keel
