// inline_graph: a graph as a part of another, against the same ops built where they are used.
#include <memory>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/graph.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "unit/graph/always_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace keel {
namespace {

using keel_test::always;
using keel_test::contains;
using keel_test::error_of;

// y = x w + x, three times over in a loop.
struct Called {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Value x, y, noise, noise_of_turns;

  Called() {
    x = graph->input("x", f32, {-1, 2});
    const Value w = graph->state("w", {.type = {f32, {2, 2}}, .a = 0.5});
    const Value turned =
        while_loop({x}, always, [&](const Values& v) { return Values{matmul(v[0], w) + v[0]}; },
                   {.trip_count = 3})[0];
    y = named(turned + 0.0f, "result");
    noise = uniform(*graph, {4});
    noise_of_turns =
        while_loop({graph->constant(Tensor::full(f32, {4}, 0))}, always,
                   [](const Values& v) { return Values{v[0] + uniform(v[0].graph(), {4})}; },
                   {.trip_count = 2})[0];
  }
};

Tensor one_row() { return Tensor::of<float>({1, 2}, {1, -2}); }

}  // namespace

TEST_CASE("an inlined graph computes what it computes alone and outlives its source") {
  Graph graph;
  // More is known of its shape here.
  const Value x = graph.input("image", f32, {1, 2});
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
  const auto results = session.run({y, doubled, slope}, {{x, one_row()}});
  // The matrix m of 0.5 is its own square, so (1 + m)^3 = 1 + 7 m; [1, -2] m = [-0.5, -0.5].
  CHECK(results[0].at(0) == doctest::Approx(1 - 3.5));
  CHECK(results[0].at(1) == doctest::Approx(-2 - 3.5));
  CHECK(results[1].at(0) == doctest::Approx(2 - 7.0));
  // d sum(x (1 + w)^3) / dw by central differences.
  const auto loss = [&](float w0) {
    session.write(w, Tensor::of<float>({2, 2}, {w0, 0.5f, 0.5f, 0.5f}));
    const Tensor rows = session.run(y, {{x, one_row()}});
    return rows.at(0) + rows.at(1);
  };
  CHECK(results[2].at(0) == doctest::Approx((loss(0.51f) - loss(0.49f)) / 0.02).epsilon(1e-3));
}

TEST_CASE("random ops of an inlined graph draw numbers of their own in bodies too") {
  const Called called;
  Graph graph;
  const Value own = uniform(graph, {4});
  Values fetches{own};
  for (int i = 0; i < 2; ++i) {
    for (const Value& noise : {called.noise, called.noise_of_turns})
      fetches.push_back(inline_graph(graph, *called.graph, {noise}, {})[0]);
  }
  Session session(graph, device("cpu"));
  const auto drawn = session.run(fetches, {});
  for (size_t i = 0; i < drawn.size(); ++i) {
    for (size_t k = 0; k < i; ++k) CHECK(drawn[i].at(0) != drawn[k].at(0));
  }
}

TEST_CASE("an inlined graph lies in the scopes that are open and gives no name twice") {
  const Called called;
  Graph graph;
  const Value x = graph.input("image", f32, {-1, 2});
  Value first, second;
  {
    const NameScope tower(graph, "tower");
    const AttributeScope exact(graph, "precision", "keep");
    first = inline_graph(graph, *called.graph, {called.y}, {{called.x, x}})[0];
    second = inline_graph(graph, *called.graph, {called.y}, {{called.x, x}})[0];
  }
  CHECK(graph.find("tower/result") == first);
  CHECK(second.node().label().name.empty());
  CHECK(second.node().label().scope == "tower");
  CHECK(first.node().label().attributes == ScopedAttributes{{"precision", "keep"}});
}

TEST_CASE("updates that layers attached are inlined with the values they belong to") {
  Graph source;
  const Value x = source.input("x", f32, {-1, 2});
  const Value seen = source.state("seen", {.type = {f32, {}}}, {.trainable = false});
  const Value w = source.state("w", {.type = {f32, {2}}, .a = 1});
  const Value y = x * w;
  source.attach_update(y, seen, seen + mean(x));
  Graph graph;
  const Value image = graph.input("image", f32, {-1, 2});
  const Value loss = mean(inline_graph(graph, source, {y}, {{x, image}})[0]);
  const Update update = sgd(0.0).minimize(loss);
  Session session(graph, device("cpu"));
  session.run(update, {loss}, {{image, one_row()}});
  CHECK(session.read(graph.find_state("seen")).at(0) == doctest::Approx(-0.5));
}

TEST_CASE("inline_graph refuses what does not fit and names the line and adds nothing") {
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
  CHECK(contains(error_of([&] { inline_graph(graph, graph, {x}, {}); }), "the same one"));
  const Value fits = graph.input("fits", f32, {-1, 2});
  graph.state("w", {.type = {f32, {2, 2}}, .a = 0.25});  // begins as something else
  const size_t size = graph.size();
  CHECK(contains(refused({{called.x, fits}}), "state 'w'"));
  CHECK(graph.size() == size);
}

TEST_SUITE_END();

}  // namespace keel
