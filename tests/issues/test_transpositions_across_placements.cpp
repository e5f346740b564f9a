// A transposition of the device went behind a cast to f64 on the host. It was then one in f64,
// which the NPU does not compute: a step ran all the same, but its loop was refused to the device.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/runtime/loop.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("issues");

namespace {

using namespace keel;
using doctest::Approx;
using keel_test::contains;

// The sum of the running sums along the rows of (x w)^T, in f64.
double expected_total(const Tensor& x, const Tensor& w) {
  double total = 0;
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      double product = 0;
      for (int64_t k = 0; k < 3; ++k) product += x.at(i * 3 + k) * w.at(k * 4 + j);
      total += static_cast<double>(4 - j) * product;
    }
  }
  return total;
}

}  // namespace

TEST_CASE("a transposition of the device stays before work that is placed on the host") {
  for (const bool scope : {false, true}) {
    CAPTURE(scope);
    Graph g;
    const Value w = g.state("w", Initializer{"uniform", {f32, {3, 4}}, -1, 1});
    const Value x = g.state("x", Initializer{"uniform", {f32, {2, 3}}, -1, 1});
    const Value turned = transpose(matmul(x, w));
    Value total;
    if (scope) {
      const HostScope host(g);
      total = cast(sum(cumsum(cast(turned, f64), 0)), f32);
    } else {
      total = cast(sum(cumsum(cast(turned, f64), 0)), f32);
    }
    Update halve;
    halve.assignments.push_back({w, w * 0.5f});
    Session session(g, device("npu"),
                    {.placement = scope ? PlacementPolicy::kFull : PlacementPolicy::kMixed});
    const double expected = expected_total(session.read(x), session.read(w));
    CHECK(session.run(Values{total}, {})[0].at(0) == Approx(expected).epsilon(1e-5));
    CHECK(contains(session.describe(halve, {total}), "f32[2, 4] -> f32[4, 2]"));
    Loop loop = session.sink({.update = halve, .fetches = {total}});
    CHECK(std::string(name_of(loop.placement().kind)) == "device");
    CHECK(loop.placement().reason == "");
    CHECK(loop.run(3).steps == 3);
    CHECK(session.run(Values{total}, {})[0].at(0) == Approx(expected / 8).epsilon(1e-5));
  }
}

TEST_CASE("a transposition still goes behind a cast to a dtype that the device has it in") {
  for (const char* name : {"cpu", "npu"}) {
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", f32, {2, 3, 4, 5});
    const Value last = transpose(x, {0, 2, 3, 1});
    const Value first = transpose(cast(relu(last), f16), {0, 3, 1, 2});
    const Value y = cast(first, f32) + 1.0f;
    Session session(g, device(name));
    CHECK_FALSE(contains(session.describe({}, {y}, {{x, Tensor(f32, {2, 3, 4, 5})}}), "transpose"));
  }
}

TEST_SUITE_END();
