// Gradients by a value and by one that it is computed from: where the op between them has no
// gradient the second was 0 in silence, as its check left out what computes a value asked for.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/group/group.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/all_reduce.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("issues");

namespace {

using namespace keel;
using doctest::Approx;
using keel_test::contains;
using keel_test::error_of;

Value unbounded(const Value& x) {
  return while_loop(
      {x}, [](const Values& v) { return less(sum(v[0]), 40.0f); },
      [](const Values& v) { return Values{v[0] * 2.0f}; })[0];
}

}  // namespace

TEST_CASE("an op without a gradient is refused between two values asked for") {
  const auto groups = make_local_groups(2);
  Graph g;
  const Value x = g.state("x", constant({3}, 2));
  const Value y = all_reduce(Values{x}, groups[0], {})[0];
  const Value loss = sum(square(y));
  for (const Values& xs : {Values{x}, Values{y, x}, Values{x, y}}) {
    const std::string error = error_of([&] { gradients(loss, xs); });
    CHECK(contains(error, "all_reduce"));
    CHECK(contains(error, "has no gradient"));
    CHECK(contains(error, "test_gradients_beyond_another_value.cpp"));
  }
  // Of y alone nothing needs the gradient of the sum over the ranks.
  CHECK_NOTHROW(gradients(loss, {y}));
}

TEST_CASE("a loop without a bound is refused between two values asked for") {
  Graph g;
  const Value x = g.state("x", constant({3}, 2));
  const Value last = unbounded(x);
  const Value loss = sum(square(last));
  CHECK(contains(error_of([&] { gradients(loss, {last, x}); }), "no bound on its iterations"));
  // 3 * 2 * 2^3 is the first sum of 40 or more, and d loss / d last = 2 * 16.
  const Value slope = gradients(loss, {last})[0];
  Session session(g, device("cpu"));
  CHECK(session.run(slope, {}).at(1) == 32);
}

TEST_CASE("a value behind which a path is cut may be asked for with what lies before it") {
  Graph g;
  const Value x = g.state("x", constant({3}, 2));
  const Value cut = stop_gradient(square(x));
  const Value loss = sum(cut * cut * x);
  const Values slopes = gradients(loss, {cut, x});
  const Value rest = unbounded(stop_gradient(x));
  const Values others = gradients(sum(rest * x), {rest, x});
  Session session(g, device("cpu"));
  const auto got = session.run(Values{slopes[0], slopes[1], others[0], others[1]}, {});
  CHECK(got[0].at(0) == 16);  // 2 * cut * x
  CHECK(got[1].at(0) == 16);  // cut^2
  CHECK(got[2].at(0) == 2);
  CHECK(got[3].at(0) == 16);  // the loop's last value
}

TEST_CASE("values on one path get their own gradients") {
  Graph g;
  const Value x = g.state("x", constant({3}, 2));
  const Value y = x * 3.0f;
  const Values slopes = gradients(sum(square(y)), {y, x});
  Session session(g, device("cpu"));
  const auto got = session.run(slopes, {});
  CHECK(got[0].at(0) == 12);
  CHECK(got[1].at(0) == 36);
}

TEST_SUITE_END();
