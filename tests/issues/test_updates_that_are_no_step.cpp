// Updates that no step can have: one that assigned the number of steps broke the count in silence,
// and a graph took updates that its own text was refused for.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/control/step_boundary.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

}  // namespace

TEST_SUITE_BEGIN("graph");

TEST_CASE("an update that assigns the number of steps is refused at the call") {
  Graph g;
  const Value w = g.state("w", ones({2}));
  const Update counted{{{w, w + 1.0f}}};
  Update update = counted;
  update.assignments.push_back({g.step(), g.step() + 5});
  Session session(g, device("ref"));
  const auto refused = [&](auto&& call) {
    const std::string error = error_of(call);
    CAPTURE(error);
    CHECK(contains(error, "keel/step: the number of steps is assigned"));
    CHECK(contains(error, "leave it out"));
    CHECK(contains(error, "test_updates_that_are_no_step.cpp:"));
  };
  refused([&] { session.run(update, Values{w}); });
  refused([&] { session.run({{{g.step(), g.step() + 1}}}, Values{w}); });
  refused([&] { session.sink({.update = update, .fetches = {w}}); });
  refused([&] { g.prepare_loop(update, {w}); });
  CHECK(session.step() == 0);
  // The count that steps keep themselves, and what sets it, are as they were.
  session.write(g.step(), Tensor::scalar<int64_t>(4));
  session.run(counted, Values{w});
  CHECK(session.step() == 5);
  CHECK(session.read(g.step()).item<int64_t>() == 5);
}

TEST_CASE("prepare_loop takes no update that the graph's text is refused for") {
  Graph g;
  const Value x = g.input("x", f32, {2});
  const Value w = g.state("w", ones({2}));
  const Value next = w + x, other = w - x, total = sum(w);
  const auto refusal = [&](const Update& update) {
    const std::string error = error_of([&] { g.prepare_loop(update, {total}); });
    CHECK(contains(error, "prepare_loop: "));
    CHECK(contains(error, "test_updates_that_are_no_step.cpp:"));
    return error;
  };
  const size_t nodes = g.size();
  CHECK(contains(refusal({{{x, next}}}), "expected a state, got input 'x'"));
  CHECK(contains(refusal({{{w, next}, {w, other}}}), "w: the state is assigned twice"));
  CHECK(contains(refusal({{{w, next}, {w, next}}}), "w: the state is assigned twice"));
  CHECK(contains(refusal({{{w, total}}}), "w: expected f32[2], got f32[]"));
  CHECK(contains(refusal({{{w, cast(next, f64)}}}), "w: expected f32[2], got f64[2]"));
  CHECK(g.size() == nodes + 1);  // the cast
  CHECK(g.updates().empty());
  CHECK(find_step_boundary(g) == nullptr);
  g.prepare_loop({{{w, next}}}, {total});
  CHECK(print_graph(*parse_graph(print_graph(g))) == print_graph(g));
}

TEST_CASE("add_update takes no update of another type and none of what is no state") {
  Graph g;
  const Value x = g.input("x", f32, {2});
  const Value open = g.input("open", f32, {-1});
  const Value w = g.state("w", ones({2}));
  const Value v = g.state("v", ones({2}));
  CHECK(contains(error_of([&] { g.add_update(x, w); }), "add_update: expected a state"));
  CHECK(contains(error_of([&] { g.add_update(w, sum(x)); }), "w: expected f32[2], got f32[]"));
  CHECK(g.updates().empty());
  g.add_update(w, x);
  g.add_update(v, open);  // which may have the state's size when it runs
  CHECK(g.updates().size() == 2);
  CHECK(print_graph(*parse_graph(print_graph(g))) == print_graph(g));
}

TEST_SUITE_END();

}  // namespace keel
