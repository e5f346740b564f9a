// The gradients of pow were NaN where 0 is multiplied by infinity, though they are 0 there: with
// b = 0 that to a, with a = 0 that to b.
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("pow has no gradient to what cannot change it at infinity") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const char* where : {"ref:0", "cpu:0", "npu:0"}) {
    Graph g;
    const Value a = g.input("a", f32, {6}), b = g.input("b", f32, {6});
    const Values slopes = gradients(sum(pow(a, b)), {a, b});
    Session session(g, device(where));
    const Tensor bases =
        Tensor::of(Shape{6}, std::vector<float>{kInfinity, -kInfinity, kNaN, 0, 0, 3});
    const Tensor exponents = Tensor::of(Shape{6}, std::vector<float>{0, 0, 0, -1, -2, 2});
    const std::vector<Tensor> got = session.run(slopes, {{a, bases}, {b, exponents}});
    INFO(where);
    for (int64_t i = 0; i < 3; ++i) CHECK(got[0].at(i) == 0);
    for (int64_t i = 3; i < 5; ++i) CHECK(got[1].at(i) == 0);
    CHECK(got[0].at(5) == doctest::Approx(6));
    CHECK(got[1].at(5) == doctest::Approx(9.887511));  // 9 log 3
  }
}

TEST_SUITE_END();

}  // namespace keel
