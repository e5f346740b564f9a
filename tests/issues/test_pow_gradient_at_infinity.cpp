// The gradients of pow were NaN where 0 is multiplied by infinity, though they are 0 there: with
// b = 0 that to a, with a = 0 that to b.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/device/float_status.h"
#include "keel/backends/npu/options.h"
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

// The slope b * a^(b-1) was a plain 0 with b = 0, so that its own gradient to b was 0, and not 1/a.
TEST_CASE("pow has the second gradients of its formula where the exponent is 0") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const char* where : {"ref:0", "cpu:0"}) {
    INFO(where);
    Graph g;
    const Value a = g.input("a", f64, {7}), b = g.input("b", f64, {7});
    const Values first = gradients(sum(pow(a, b)), {a, b});
    const Values of_a = gradients(sum(first[0]), {a, b}), of_b = gradients(sum(first[1]), {a});
    Session session(g, device(where));
    const Tensor bases = Tensor::of<double>({7}, {2, 0.25, -4, 3, 0, kInfinity, 1e-200});
    const Tensor exponents = Tensor::of<double>({7}, {0, 0, 0, 2, 0, 0, 0});
    const std::vector<Tensor> got =
        session.run({first[0], of_a[0], of_a[1], of_b[0]}, {{a, bases}, {b, exponents}});
    // 1/a; of 3^2: a + 2 a log(a). Powers of negative numbers have no gradient to the exponent.
    const double mixed[] = {0.5, 4, -0.25, 9.591673732008658, 0, 0, 0};
    for (int64_t i = 0; i < 7; ++i) {
      CAPTURE(i);
      if (i != 2) CHECK(got[2].at(i) == doctest::Approx(mixed[i]).epsilon(1e-12));
      CHECK(got[0].at(i) == (i == 3 ? doctest::Approx(6) : doctest::Approx(0)));
      CHECK_FALSE(std::signbit(got[0].at(i)));
      CHECK(got[1].at(i) == (i == 3 ? doctest::Approx(2) : doctest::Approx(0)));
    }
    for (const int64_t i : {0, 1, 3}) CHECK(got[3].at(i) == doctest::Approx(mixed[i]));
  }
}

TEST_CASE("the gradient of pow reports no overflow of f16 where nothing overflows") {
  SessionOptions options;
  options.device_options = npu::options("ascend910");
  for (const double exponent : {2.0, 1.5, 0.0}) {
    CAPTURE(exponent);
    Graph g;
    const Value a = g.input("a", f16, {3}), b = g.input("b", f16, {3});
    const Value slope = gradients(sum(pow(a, b)), {a})[0];
    Session session(g, device("npu"), options);
    npu::clear_float_status(device("npu"));
    const Tensor bases = Tensor::of<double>({3}, {100, 0.001, 0}).cast(f16);
    session.run(slope, {{a, bases}, {b, Tensor::full(f16, {3}, exponent)}});
    CHECK(npu::float_status(device("npu")) == 0);
  }
}

TEST_SUITE_END();

}  // namespace keel
