// Clipping where the numbers are extreme for their dtype: a scale rounded to 16 bits, squares that
// underflow, limits of clip_by_value beyond a dtype's numbers, infinite gradients.
#include <cmath>
#include <limits>
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

constexpr float kInfiniteFloat = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("16-bit gradients are scaled to small norms exactly") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    for (const DType dtype : {f16, bf16}) {
      for (const double norm : {1.0, 0.37, 0.01, 0.001}) {
        CAPTURE(name);
        CAPTURE(name_of(dtype));
        CAPTURE(norm);
        Graph g;
        const Value x = g.input("x", dtype, {1024});
        const Value clipped = clip_by_global_norm({x}, norm)[0];
        CHECK(clipped.dtype() == dtype);
        Session session(g, device(name));
        const Tensor got = session.run(clipped, {{x, Tensor::full(dtype, {1024}, 30000)}});
        // All are the same share of the norm, rounded once.
        CHECK(got.at(7) == Tensor::full(dtype, {}, norm / 32).at(0));
      }
    }
  }
}

TEST_CASE("the norm of gradients whose squares underflow is theirs") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", f32, {4});
    const Value norm = global_norm({x});
    const Value slope = gradients(norm, {x})[0];
    Session session(g, device(name));
    const auto of = [&](float a, float b) {
      return session.run(Values{norm, slope}, {{x, Tensor::of<float>({4}, {a, -b, 0, 0})}});
    };
    for (const float scale : {1e-23f, 1e-37f, 1e-12f, 1.0f, 1e19f, 1e25f}) {
      CAPTURE(scale);
      const auto got = of(3 * scale, 4 * scale);
      CHECK(got[0].at(0) == Approx(5 * static_cast<double>(scale)).epsilon(1e-6));
      CHECK(got[1].at(0) == Approx(0.6).epsilon(1e-6));
      CHECK(got[1].at(1) == Approx(-0.8).epsilon(1e-6));
    }
    CHECK(of(0, 0)[0].at(0) == 0);
  }
}

TEST_CASE("the norm of f64 gradients whose squares underflow is theirs") {
  Graph g;
  const Value y = g.input("y", f64, {2});
  const Value norm = global_norm({y});
  for (const char* name : {"ref", "cpu"}) {
    Session session(g, device(name));
    for (const double scale : {1e-300, 1e-160, 1.0, 1e300}) {
      CAPTURE(name);
      CAPTURE(scale);
      const Tensor value = Tensor::of<double>({2}, {3 * scale, 4 * scale});
      CHECK(session.run(norm, {{y, value}}).at(0) == Approx(5 * scale).epsilon(1e-14));
    }
  }
}

TEST_CASE("a norm within the range of its dtype reads each gradient once") {
  Graph g;
  const Value x = g.input("x", f32, {64, 64}), y = g.input("y", f32, {64, 64});
  Session session(g, device("cpu"));
  const Tensor ones = Tensor::full(f32, {64, 64}, 1);
  const std::string tasks = session.describe({}, {global_norm({x, y})}, {{x, ones}, {y, ones}});
  // What is scaled comes behind the branch.
  const std::string usual = tasks.substr(0, tasks.find("LOOP_SWITCH"));
  CHECK(usual.size() < tasks.size());
  size_t sums = 0;
  for (size_t at = usual.find("sum"); at != std::string::npos; at = usual.find("sum", at + 1))
    ++sums;
  CHECK(sums == 2);
}

TEST_CASE("the trust of LAMB in tiny weights is their norm") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    Graph g;
    const Value w = g.state("w", constant({4}, 1e-23));
    const Update update = lamb(0.5, {.weight_decay = 0}).minimize(sum(w));
    Session session(g, device(name));
    session.run(update, Values{}, {});
    // |w| = 2e-23 and |u| = 2, so each moves by half of 1e-23.
    CHECK(session.read(w).at(0) == Approx(5e-24).epsilon(1e-5));
  }
}

TEST_CASE("an infinite gradient leaves NaN and zeros and a NaN leaves NaN") {
  Graph g;
  const Value x = g.input("x", f32, {3});
  const Value clipped = clip_by_global_norm({x}, 1)[0];
  Session session(g, device("cpu"));
  const auto of = [&](float a) {
    return session.run(clipped, {{x, Tensor::of<float>({3}, {a, 1, -2})}});
  };
  const Tensor infinite = of(-kInfiniteFloat), nan = of(std::nanf(""));
  CHECK(std::isnan(infinite.at(0)));
  CHECK(infinite.at(1) == 0);
  CHECK(infinite.at(2) == 0);
  for (int i = 0; i < 3; ++i) CHECK(std::isnan(nan.at(i)));
}

TEST_CASE("limits of clip_by_value that a dtype cannot hold") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", f16, {4}), y = g.input("y", f32, {4});
    const Values clipped = clip_by_value({x, y}, 1e6);
    Session session(g, device(name));
    Tensor half(f16, {4}), single(f32, {4});
    const double values[] = {65504, -kInfiniteFloat, 5, NAN};
    for (int i = 0; i < 4; ++i) {
      half.set(i, values[i]);
      single.set(i, values[i]);
    }
    const auto got = session.run(Values{clipped[0], clipped[1]}, {{x, half}, {y, single}});
    CHECK(got[0].at(0) == 65504);
    CHECK(got[0].at(1) == -65504);
    CHECK(got[0].at(2) == 5);
    CHECK(std::isnan(got[0].at(3)));
    CHECK(got[1].at(1) == -1e6);
    const std::string error = error_of([&] { clip_by_value({y, x}, 1e-9); });
    CHECK(contains(error, "clip_by_value: limit: expected a number that is not 0 in f16"));
    CHECK(contains(error, "test_clipping_of_extremes.cpp"));
    CHECK(error_of([&] { clip_by_value({x, y}, 1e39); }).empty());
  }
}

TEST_SUITE_END();
