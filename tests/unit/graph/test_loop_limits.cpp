// What while_loop refuses: gradients without a bound or beyond their memory budget, more turns than
// were promised, options that make no sense.
#include <functional>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"

#include "ops_for_tests.h"

namespace keel {
namespace {

using testing::contains;
using testing::elements;
using testing::error_of;

// The shapes of the stacks that a loop of `trips` turns of 8-byte variables keeps.
std::vector<Shape> stacks_kept(WhileOptions options) {
  Graph g;
  const Value x = g.input("x", f64, {});
  const Value y = while_loop(
      {x}, [](const Values& v) { return less(v[0], 0.0); },
      [](const Values& v) { return Values{sin(v[0])}; }, options)[0];
  const auto graph = specialise(
      {.graph = &g, .fetches = gradients(y, {x}), .update = {}, .input_types = {{"x", x.type()}}});
  std::vector<Shape> stacks;
  const std::function<void(const Graph&)> collect = [&](const Graph& in) {
    for (const Node& node : in.nodes()) {
      if (node.op_name() == "while_loop" && node.types().back().shape.rank() == 2) {
        stacks.push_back(node.types().back().shape);
      }
      for (const auto& body : node.bodies()) collect(*body);
    }
  };
  collect(*graph);
  return stacks;
}

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("a memory budget chooses the shortest segments that fit") {
  using Shapes = std::vector<Shape>;
  CHECK(stacks_kept({.trip_count = 100}) == Shapes{{100, 1}});
  CHECK(stacks_kept({.trip_count = 100, .memory_budget_bytes = 800}) == Shapes{{100, 1}});
  // ceil(100 / k) + k rows of 8 bytes: k = 2 takes 52, k = 3 37, k = 10 the least, 20.
  CHECK(stacks_kept({.trip_count = 100, .memory_budget_bytes = 799}) == Shapes{{50, 1}, {2, 1}});
  CHECK(stacks_kept({.trip_count = 100, .memory_budget_bytes = 415}) == Shapes{{34, 1}, {3, 1}});
  CHECK(stacks_kept({.max_trips = 100, .memory_budget_bytes = 160}) == Shapes{{10, 1}, {10, 1}});
  const std::string text =
      error_of([] { stacks_kept({.trip_count = 100, .memory_budget_bytes = 159}); });
  CHECK(contains(text, "memory_budget_bytes"));
  CHECK(contains(text, "at least 160 bytes"));
  CHECK(contains(text, "recompute_every 10"));
  CHECK(contains(text, "got 159"));
  CHECK(contains(text, "test_loop_limits.cpp"));
  const std::string fixed = error_of(
      [] { stacks_kept({.trip_count = 100, .recompute_every = 2, .memory_budget_bytes = 160}); });
  CHECK(contains(fixed, "at least 416 bytes"));
  CHECK(contains(fixed, "leave recompute_every out"));
}

TEST_CASE("a bound on the turns that no memory could keep is named") {
  constexpr int64_t kTurns = int64_t{1} << 62;
  for (const int64_t budget : {int64_t{1} << 20, int64_t{1} << 62}) {
    const std::string text =
        error_of([&] { stacks_kept({.max_trips = kTurns, .memory_budget_bytes = budget}); });
    CAPTURE(text);
    CHECK(contains(text, "while_loop: max_trips: expected so few iterations"));
    CHECK(contains(text, "got 4611686018427387904"));
    CHECK(contains(text, "test_loop_limits.cpp"));
  }
  CHECK(contains(error_of([] { stacks_kept({.max_trips = kTurns}); }), "while_loop: max_trips"));
  CHECK(contains(error_of([] { stacks_kept({.trip_count = kTurns}); }), "while_loop: trip_count"));
  using Shapes = std::vector<Shape>;
  // With few enough of the turns kept it is only a large number.
  CHECK(stacks_kept({.max_trips = kTurns, .recompute_every = 1 << 10}) ==
        Shapes{{kTurns >> 10, 1}, {1 << 10, 1}});
}

TEST_CASE("a budget that no segments of a very long loop fit into is refused soon") {
  // All lengths of segments, one after the other, would be 2^30 trials.
  constexpr int64_t kTurns = int64_t{1} << 58;
  const std::string text =
      error_of([] { stacks_kept({.max_trips = kTurns, .memory_budget_bytes = int64_t{1} << 30}); });
  CAPTURE(text);
  CHECK(contains(text, "memory_budget_bytes: expected at least 85899"));
  CHECK(stacks_kept({.max_trips = kTurns, .memory_budget_bytes = int64_t{1} << 40})[1][0] >=
        kTurns >> 37);
}

TEST_CASE("options of while_loop that make no sense are refused") {
  const auto refused = [](WhileOptions options) { return error_of([&] { stacks_kept(options); }); };
  CHECK(contains(refused({.trip_count = -1}), "trip_count: expected at least 0"));
  CHECK(contains(refused({.max_trips = -2}), "max_trips"));
  CHECK(contains(refused({.trip_count = 3, .recompute_every = 0}), "recompute_every"));
  CHECK(contains(refused({.trip_count = 3, .memory_budget_bytes = -1}), "memory_budget_bytes"));
  CHECK(contains(refused({.trip_count = 3, .max_trips = 2}), "leave max_trips out"));
}

TEST_CASE("a loop that claims another one's place is refused outside of the expansion") {
  Graph g;
  const Value x = g.input("x", f32, {});
  const Node& loop = add_while_loop(
      {x}, [](const Values& v) { return less(v[0], 9.0f); },
      [](const Values& v) { return Values{v[0] * 2.0f}; }, {.max_trips = 4, .forward_of = 0},
      CallSite::here());
  CHECK(contains(error_of([&] { verify(g); }), "forward_of"));
  Session session(g, device("cpu"));
  CHECK(contains(error_of([&] {
                   session.run({loop.output(1)}, {{x, Tensor(f32, {})}});
                 }),
                 "forward_of"));
}

TEST_CASE("a gradient through a loop without a bound names both lines and the fix") {
  Graph g;
  const Value x = g.input("x", f32, {});
  const int loop_line = __LINE__ + 1;
  const Value y = while_loop(
      {x}, [](const Values& v) { return less(v[0], 9.0f); },
      [](const Values& v) { return Values{v[0] * 2.0f}; })[0];
  const int call_line = __LINE__ + 1;
  const std::string text = error_of([&] { gradients(y, {x}); });
  CHECK(contains(text, "while_loop at "));
  CHECK(contains(text, "test_loop_limits.cpp:" + std::to_string(loop_line)));
  CHECK(contains(text, "test_loop_limits.cpp:" + std::to_string(call_line)));
  CHECK(contains(text, "trip_count"));
  CHECK(contains(text, "max_trips"));
  CHECK(contains(text, "stop_gradient"));
  // The fix that it names works: nothing of the loop is on the path.
  CHECK(error_of([&] { gradients(stop_gradient(y) * x, {x}); }).empty());
}

TEST_CASE("an unbounded loop inside another body is found") {
  Graph g;
  const Value x = g.input("x", f32, {});
  const auto endless = [](const Values& v) {
    return while_loop(
        {v[0]}, [](const Values& w) { return less(w[0], 9.0f); },
        [](const Values& w) { return Values{w[0] * 2.0f}; });
  };
  const Value in_loop = while_loop({x}, [](const Values& v) { return less(v[0], 9.0f); }, endless,
                                   {.trip_count = 2})[0];
  CHECK(contains(error_of([&] { gradients(in_loop, {x}); }), "no bound"));
  const Value in_branch =
      cond(greater(x, 0.0f), {x}, endless, [](const Values& v) { return v; })[0];
  CHECK(contains(error_of([&] { gradients(in_branch, {x}); }), "no bound"));
  // A bounded loop with an unbounded one whose result is not on the path.
  const Values apart = while_loop(
      {x, x}, [](const Values& v) { return less(v[0], 9.0f); },
      [&](const Values& v) {
        return Values{v[0] * 2.0f, endless({v[1]})[0]};
      },
      {.trip_count = 2});
  CHECK(error_of([&] { gradients(apart[0], {x}); }).empty());
  CHECK(contains(error_of([&] { gradients(apart[1], {x}); }), "no bound"));
}

TEST_CASE("a loop that needs more turns than max_trips fails at the launch and only then") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", f32, {});
    const auto build = [&](WhileOptions options, CallSite site) {
      return while_loop(
          {x}, [](const Values& v) { return less(v[0], 100.0f); },
          [](const Values& v) { return Values{v[0] * 1.7f}; }, options, site)[0];
    };
    const int line = __LINE__ + 1;
    const Value bounded = build({.max_trips = 5}, CallSite::here());
    const Value free = build({}, CallSite::here());
    Session session(g, device(name));
    const auto at = [&](const Value& y, float from) {
      return elements(session.run({y}, {{x, Tensor::full(f32, {}, from)}})[0]);
    };
    CHECK(at(bounded, 10) == at(free, 10));  // 5 turns: 10 * 1.7^5 = 142
    const std::string text = error_of([&] { at(bounded, 2); });
    CHECK(contains(text, "while_loop: max_trips"));
    CHECK(contains(text, "at most 5 iterations"));
    CHECK(contains(text, "raise max_trips"));
    CHECK(contains(text, "test_loop_limits.cpp:" + std::to_string(line)));
    CHECK(at(bounded, 60) == at(free, 60));
    CHECK(at(bounded, 1000) == std::vector<double>{1000});
  }
}

TEST_SUITE_END();

}  // namespace keel
