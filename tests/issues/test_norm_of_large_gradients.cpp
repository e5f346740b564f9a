// Finite gradients whose squares overflow had an infinite norm, so clipping made them 0.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using doctest::Approx;

}  // namespace

TEST_CASE("gradients whose squares overflow are clipped and not made zero") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", f32, {2}), y = g.input("y", f32, {3});
    const Value norm = global_norm({x, y});
    const Values clipped = clip_by_global_norm({x, y}, 1.0);
    Session session(g, device(name));
    const auto run = [&](std::vector<float> a, std::vector<float> b) {
      return session.run(Values{norm, clipped[0], clipped[1]},
                         {{x, Tensor::of<float>({2}, a)}, {y, Tensor::of<float>({3}, b)}});
    };
    const auto large = run({3e20f, 0}, {0, -4e20f, 1});
    CHECK(large[0].item<float>() == Approx(5e20));
    CHECK(large[1].at(0) == Approx(0.6));
    CHECK(large[2].at(1) == Approx(-0.8));
    const auto largest = run({2e38f, 0}, {0, 1e38f, 0});
    CHECK(largest[0].item<float>() == Approx(std::sqrt(5.0) * 1e38));
    // Where nothing overflows: the plain formula, to the last bit.
    const auto plain = run({0.3f, 0.5f}, {1.25f, -2, 0.125f});
    const Value reference = sqrt(sum(square(x)) + sum(square(y)));
    CHECK(bit_equal(plain[0],
                    session.run(reference, {{x, Tensor::of<float>({2}, {0.3f, 0.5f})},
                                            {y, Tensor::of<float>({3}, {1.25f, -2, 0.125f})}})));
    const float infinity = std::numeric_limits<float>::infinity();
    CHECK(run({infinity, 0}, {0, 0, 0})[0].item<float>() == infinity);
    CHECK(std::isnan(run({std::nanf(""), 0}, {3e20f, 0, 0})[0].item<float>()));
    CHECK(run({0, 0}, {0, 0, 0})[0].item<float>() == 0);
  }
}

TEST_CASE("the norm of f64 gradients whose squares overflow is finite") {
  Graph g;
  const Value x = g.input("x", f64, {2});
  Session session(g, device("cpu"));
  CHECK(session.run(global_norm({x}), {{x, Tensor::of<double>({2}, {3e200, 4e200})}}).at(0) ==
        Approx(5e200));
}

TEST_SUITE_END();
