// The gradient of loops within each other took twice the time with each level: 6 seconds for 21 of
// them, and years for as many as may be built.
#include <cmath>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/flow.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

namespace keel {
namespace {

// The innermost of `depth` loops of one turn gives each of the values the sine of its neighbour.
Values turned(const Values& values, int depth) {
  Values next;
  if (depth == 0) {
    for (size_t i = 0; i < values.size(); ++i) next.push_back(sin(values[(i + 1) % values.size()]));
    return next;
  }
  return while_loop({values.begin(), values.end()}, {},
                    [&](const Values& v) { return turned(v, depth - 1); }, {.trip_count = 1});
}

}  // namespace

TEST_SUITE_BEGIN("gradient");

TEST_CASE("gradients of loops as deep as the limit") {
  Graph g;
  const Value x = g.input("x", f32, {});
  const Values of = gradients(turned({x}, kMaxBodyDepth)[0], {x});
  CHECK(of.size() == 1);
}

TEST_CASE("gradients of deep loops are computed") {
  Graph g;
  const Value x = g.input("x", f32, {});
  const Value y = turned({x, x * 2.0f, x * 3.0f}, 30)[0];
  Session session(g, device("ref"));
  const Tensor got = session.run(gradients(y, {x}), {{x, Tensor::scalar(0.3f)}})[0];
  CHECK(got.at(0) == doctest::Approx(2 * std::cos(0.6)));
}

TEST_CASE("what deep loops connect is found in both directions") {
  Graph g;
  const Value x = g.input("x", f32, {});
  const Value z = g.input("z", f32, {});
  const Values out = turned({x, stop_gradient(z), z}, kMaxBodyDepth - 1);
  // Any turn may lead from each variable to each other one, but none to z through its stop.
  const ValueSet computed = floats_computed_from(g, {x});
  for (const Value& v : out) CHECK(computed.contains(v));
  const ValueSet sources = sources_of(g, {out[0]});
  CHECK(sources.contains(x));
  CHECK(sources.contains(z));
  const Values cut = turned({x, stop_gradient(z)}, kMaxBodyDepth - 1);
  CHECK(sources_of(g, {cut[0]}).contains(x));
  CHECK(!sources_of(g, {cut[0]}).contains(z));
}

TEST_SUITE_END();

}  // namespace keel
