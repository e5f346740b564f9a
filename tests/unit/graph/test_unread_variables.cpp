// drop_unread_variables: which variables of loops stay, loops in loops, and that results are the
// same.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/graph.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/ops.h"

#include "unit/graph/always_for_tests.h"

TEST_SUITE_BEGIN("graph");

namespace {

using keel::Graph;
using keel::Tensor;
using keel::Value;
using keel::Values;
using keel_test::always;

// The graph that a compiler sees: gradients expanded, bodies without parents.
std::unique_ptr<Graph> specialised(const Graph& g, const Values& fetches) {
  return keel::specialise({.graph = &g, .fetches = fetches});
}

const keel::Node& only_loop(const Graph& graph) {
  const keel::Node* found = nullptr;
  for (const keel::Node& node : graph.nodes()) {
    if (!node.is(keel::OpRole::kWhile)) continue;
    REQUIRE(found == nullptr);
    found = &node;
  }
  REQUIRE(found != nullptr);
  return *found;
}

// The variables beside the count.
size_t variables_of(const Graph& graph) { return only_loop(graph).types().size() - 1; }

size_t variables_left(const Graph& g, const Values& fetches) {
  const auto smaller = keel::drop_unread_variables(*specialised(g, fetches));
  keel::verify(*smaller);
  return variables_of(*smaller);
}

}  // namespace

TEST_CASE("variables that nobody reads are dropped with what they are made of") {
  Graph g;
  const Value a = g.constant(Tensor::scalar(1.0f)), b = g.constant(Tensor::scalar(2.0f)),
              huge = g.constant(Tensor::scalar(5.0f));
  // The second is read by itself alone, the third is not even computed from anything that stays.
  const Values loop =
      keel::while_loop({a, b, b}, always,
                       [&](const Values& v) {
                         return Values{v[0] * 2.0f, v[1] + v[0], keel::exp(v[2] + huge)};
                       },
                       {.trip_count = 3});
  const auto whole = specialised(g, {loop[0]});
  CHECK(variables_of(*whole) == 3);
  const auto smaller = keel::drop_unread_variables(*whole);
  keel::verify(*smaller);
  CHECK(variables_of(*smaller) == 1);
  // Nothing is captured any more, so the constant of the third has no reader.
  CHECK(only_loop(*smaller).inputs().size() == 2);
}

TEST_CASE("a graph without loops stays as it is") {
  Graph g;
  const Value a = g.input("a", keel::f32, {3});
  const Value used = keel::exp(a);
  g.set_outputs({used});
  static_cast<void>(keel::exp(used));
  CHECK(keel::drop_unread_variables(g) == nullptr);
}

TEST_CASE("variables stay that a result or another variable or the condition needs") {
  Graph g;
  const Value one = g.constant(Tensor::scalar(1.0f));
  const auto body = [](const Values& v) { return Values{v[1], v[2] + 1.0f, v[2] * 2.0f}; };
  const Values chain = keel::while_loop({one, one, one}, always, body, {.trip_count = 4});
  CHECK(variables_left(g, {chain[0]}) == 3);
  CHECK(variables_left(g, {chain[1]}) == 2);
  CHECK(variables_left(g, {chain[2]}) == 1);
  const Values asked = keel::while_loop(
      {one, one, one}, [](const Values& v) { return keel::less(v[1], 9.0f); },
      [](const Values& v) {
        return Values{v[0] + 1.0f, v[1] * 2.0f, v[2]};
      });
  CHECK(variables_left(g, {asked[0]}) == 2);
  // Two that only feed each other go together.
  const Values circle = keel::while_loop({one, one, one}, always,
                                         [](const Values& v) {
                                           return Values{v[0] + 1.0f, v[2], v[1]};
                                         },
                                         {.trip_count = 2});
  CHECK(variables_left(g, {circle[0]}) == 1);
}

TEST_CASE("variables of loops in loops are dropped where the body around them reads none") {
  Graph g;
  const Value one = g.constant(Tensor::scalar(1.0f));
  const Values outer = keel::while_loop({one, one}, always,
                                        [](const Values& v) {
                                          const Values inner = keel::while_loop(
                                              {v[0], v[1]}, always,
                                              [](const Values& w) {
                                                return Values{w[0] + 1.0f, w[1] * 3.0f};
                                              },
                                              {.trip_count = 2});
                                          return Values{inner[0], v[1] + inner[1]};
                                        },
                                        {.trip_count = 3});
  CHECK(variables_left(g, {outer[0], outer[1]}) == 2);
  const Values apart =
      keel::while_loop({one}, always,
                       [](const Values& v) {
                         return Values{keel::while_loop({v[0], v[0]}, always,
                                                        [](const Values& w) {
                                                          return Values{w[0] + 1.0f, w[1] * 3.0f};
                                                        },
                                                        {.trip_count = 2})[0]};
                       },
                       {.trip_count = 3});
  const auto smaller = keel::drop_unread_variables(*specialised(g, {apart[0]}));
  keel::verify(*smaller);
  CHECK(variables_of(*only_loop(*smaller).bodies()[1]) == 1);
}

TEST_CASE("a loop without its unread variables gives the same results on each backend") {
  Graph g;
  const Value x = g.input("x", keel::f32, {3});
  const Values loop =
      keel::while_loop({x, x, x}, always,
                       [](const Values& v) {
                         return Values{keel::sin(v[0]) + v[1], v[1] * 0.5f, keel::exp(v[2])};
                       },
                       {.trip_count = 5});
  const Value slope = keel::gradients(keel::sum(loop[0]), {x})[0];
  const Tensor at = Tensor::of<float>({3}, {0.5f, -1, 2});
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    keel::Session session(g, keel::device(backend));
    const auto some = session.run(Values{loop[0], slope}, {{x, at}});
    const auto all = session.run(Values{loop[0], slope, loop[1], loop[2]}, {{x, at}});
    CHECK(keel::bit_equal(some[0], all[0]));
    CHECK(keel::bit_equal(some[1], all[1]));
  }
}
