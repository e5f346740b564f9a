// What gradients and states go through on their way to a step lost digits, or cut them off: norms
// were computed in 16 bits under mixed precision, f64 gradients were divided by an f32, integers
// were trained by truncation, and a list of no states trained nothing in silence.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using doctest::Approx;
using keel_test::contains;
using keel_test::error_of;

constexpr const char* kModes[] = {"fp32", "allow_mix_precision_fp16", "allow_mix_precision_bf16"};

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("norms of gradients are computed in f32 under mixed precision") {
  const auto unit = static_cast<float>(std::ldexp(1.0, -15));  // its square is 0 in f16
  for (const char* backend : {"cpu", "npu"}) {
    for (const char* mode : kModes) {
      CAPTURE(backend);
      CAPTURE(mode);
      Graph g;
      const Value q = g.input("q", f32, {2});
      const Value norm = global_norm({q});
      const Value clipped = clip_by_global_norm({q}, 2.5 * static_cast<double>(unit))[0];
      Session session(g, device(backend), {.precision = Precision::named(mode)});
      const auto small =
          session.run(Values{norm, clipped}, {{q, Tensor::of<float>({2}, {3 * unit, 4 * unit})}});
      CHECK(small[0].at(0) / unit == Approx(5).epsilon(1e-6));
      CHECK(small[1].at(0) / unit == Approx(1.5).epsilon(1e-6));
      CHECK(small[1].at(1) / unit == Approx(2).epsilon(1e-6));
      // In bf16 the square of the second is lost beside the first.
      const auto uneven = session.run(Values{norm}, {{q, Tensor::of<float>({2}, {1, 1.0f / 32})}});
      CHECK(uneven[0].at(0) == Approx(std::sqrt(1 + 1.0 / 1024)).epsilon(1e-6));
    }
  }
}

TEST_CASE("sums and means of steps are computed in f32 under mixed precision") {
  const double x_value = 1 + 1.0 / 1024;  // 1 in bf16
  for (const char* backend : {"cpu", "npu"}) {
    for (const char* mode : kModes) {
      CAPTURE(backend);
      CAPTURE(mode);
      Graph g;
      const Value x = g.input("x", f32, {1});
      const Value w = g.state("w", zeros({1}));
      const Value seen = g.state("seen", zeros({1}), {.trainable = false});
      const Value output = x * 2;
      attach_running_mean(output, seen, x, 0.75);
      Update update;
      update.assignments.push_back({w, x});
      update = average_weights(update, 0);
      update += accumulate_gradients({w}, {x}, 2).update;
      update += attached_updates(output);
      Session session(g, device(backend), {.precision = Precision::named(mode)});
      session.run(update, {}, {{x, Tensor::full(f32, {1}, x_value)}});
      CHECK(session.read(g.find_state("w/average")).at(0) == x_value);
      CHECK(session.read(g.find_state("w/gradient_sum")).at(0) == x_value);
      CHECK(session.read(seen).at(0) == x_value / 4);
    }
  }
}

TEST_CASE("a loss scaler refuses what is no float") {
  Graph g;
  const LossScaler scaler(g, FixedLossScale{8});
  const Value x = g.input("x", f32, {2}), n = g.input("n", i32, {});
  const std::string gradient = error_of([&] { scaler.unscaled({x, n}); });
  CHECK(contains(gradient, "LossScaler: gradient 1: expected a float dtype, got i32"));
  CHECK(contains(gradient, "test_steps_of_floats.cpp"));
  const std::string loss = error_of([&] { scaler.scaled(n); });
  CHECK(contains(loss, "LossScaler: loss: expected a float dtype, got i32"));
  CHECK(contains(loss, "test_steps_of_floats.cpp"));
  const std::string none = error_of([&] { scaler.unscaled(Values{Value()}); });
  CHECK(contains(none, "LossScaler: gradient 0: expected a Value, got an empty Value"));
  CHECK(contains(none, "test_steps_of_floats.cpp"));
}

TEST_CASE("unscaled gradients of f64 keep their digits") {
  for (const char* backend : {"ref", "cpu"}) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f64, {1});
    const Value slope = LossScaler(g, FixedLossScale{3}).unscaled({x})[0];
    Session session(g, device(backend));
    const double third = session.run(slope, {{x, Tensor::full(f64, {1}, 1)}}).at(0);
    CHECK(std::abs(third - 1.0 / 3) < 1e-15);
  }
}

TEST_CASE("a step of no states or of integers is refused") {
  Graph g;
  const Value w = g.state("w", ones({3})), n = g.state("n", constant({3}, 10, i32));
  const Value loss = sum(square(w));
  const std::string nothing = error_of([&] { sgd(0.1).minimize(loss, Values{}); });
  CHECK(contains(nothing, "minimize: states: expected at least one state to train, got none"));
  CHECK(contains(nothing, "test_steps_of_floats.cpp"));
  const Value slope = g.constant(Tensor::full(i32, {3}, 3));
  const std::string whole = error_of([&] { sgd(0.5).apply({n}, {slope}); });
  CHECK(contains(whole, "sgd: states: expected a float dtype, got state 'n' of i32"));
  CHECK(contains(whole, "test_steps_of_floats.cpp"));
}

TEST_SUITE_END();

}  // namespace keel
