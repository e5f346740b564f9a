// The gradient of global_norm, and through it that of clip_by_global_norm, was 0 times infinity
// where all gradients are 0: NaN, which destroyed the training that had the norm in its loss.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using doctest::Approx;
using keel_test::contains;
using keel_test::error_of;

}  // namespace

TEST_CASE("a training with a global norm in its loss begins at weights of zero") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", f32, {2});
    const Value w = g.state("w", zeros({2}));
    const Value loss = sum(square(w - x)) + 0.01f * global_norm({w});
    const Update train = sgd(0.1).minimize(loss);
    Session session(g, device(name));
    const Tensor aim = Tensor::of<float>({2}, {1, -2});
    session.run(train, Values{}, {{x, aim}});
    // The norm has no part in the first step: w = 0.2 x.
    CHECK(session.read(w).at(0) == Approx(0.2).epsilon(1e-6));
    CHECK(session.read(w).at(1) == Approx(-0.4).epsilon(1e-6));
    session.run(train, Values{}, {{x, aim}});
    // In the second one its gradient is x / |x|, and w = 0.36 x - 0.001 x / |x|.
    const double share = 0.36 - 0.001 / std::sqrt(5.0);
    CHECK(session.read(w).at(0) == Approx(share).epsilon(1e-6));
    CHECK(session.read(w).at(1) == Approx(-2 * share).epsilon(1e-6));
  }
}

TEST_CASE("gradients of the norm and of clipping by it are finite at zero in every order") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    Graph g;
    const Value q = g.input("q", f32, {2});
    const Value norm = global_norm({q});
    const Value clipped = clip_by_global_norm({q}, 1)[0];
    const Value of_norm = gradients(norm, {q})[0];
    const Value of_clip = gradients(sum(clipped), {q})[0];
    const Value first = sum(slice(of_norm, {0}, {1}));
    const Value curvature = gradients(first, {q})[0];
    const Value curvature_of_clip = gradients(sum(square(of_clip)), {q})[0];
    Session session(g, device(name));
    const auto at = [&](float a, float b) {
      return session.run(Values{norm, clipped, of_norm, of_clip, curvature, curvature_of_clip},
                         {{q, Tensor::of<float>({2}, {a, b})}});
    };
    const auto zero = at(0, 0);
    CHECK(zero[0].at(0) == 0);
    for (int i = 0; i < 2; ++i) {
      CHECK(zero[1].at(i) == 0);
      CHECK(zero[2].at(i) == 0);
      CHECK(zero[3].at(i) == 1);  // clipping is the identity here
      CHECK(zero[4].at(i) == 0);
      CHECK(zero[5].at(i) == 0);
    }
    // The Hessian of |q| is (1 - q q' / |q|^2) / |q|.
    const auto other = at(3, 4);
    CHECK(other[2].at(0) == Approx(0.6).epsilon(1e-6));
    CHECK(other[4].at(0) == Approx(0.128).epsilon(1e-5));
    CHECK(other[4].at(1) == Approx(-0.096).epsilon(1e-5));
  }
}

TEST_CASE("the gradient of the norm of f64 is zero at zero") {
  for (const char* name : {"ref", "cpu"}) {
    CAPTURE(name);
    Graph g;
    const Value q = g.input("q", f64, {3});
    const Value slope = gradients(global_norm({q}), {q})[0];
    Session session(g, device(name));
    CHECK(session.run(slope, {{q, Tensor(f64, {3})}}).at(1) == 0);
  }
}

TEST_CASE("a largest norm that the norm's dtype cannot hold is refused by name") {
  Graph g;
  const Value x = g.input("x", f32, {2}), y = g.input("y", f64, {2});
  const std::string small = error_of([&] { clip_by_global_norm({x}, 1e-50); });
  CHECK(contains(small,
                 "clip_by_global_norm: max_norm: expected a number that is not 0 in f32, got "
                 "1e-50"));
  CHECK(contains(small, "test_gradient_of_a_norm_at_zero.cpp"));
  const std::string large = error_of([&] { clip_by_global_norm({x}, 1e300); });
  CHECK(contains(large,
                 "clip_by_global_norm: max_norm: expected a finite number that fits f32, got "
                 "1e+300"));
  CHECK(contains(large, "test_gradient_of_a_norm_at_zero.cpp"));
  CHECK(contains(error_of([&] { clip_by_global_norm({}, 1); }), "clip_by_global_norm: expected"));
  // A norm is f64 where one gradient is.
  CHECK_NOTHROW(clip_by_global_norm({x, y}, 1e-50));
  CHECK_NOTHROW(clip_by_global_norm({x, y}, 1e300));
}

TEST_CASE("integer gradients are not clipped to zeros") {
  Graph g;
  const Value x = g.input("x", f32, {2}), n = g.input("n", i32, {2});
  const std::string error = error_of([&] { clip_by_global_norm({x, n}, 1); });
  CHECK(contains(error, "clip_by_global_norm: gradient 1: expected a float dtype, got i32"));
  CHECK(contains(error, "test_gradient_of_a_norm_at_zero.cpp"));
}

TEST_SUITE_END();
