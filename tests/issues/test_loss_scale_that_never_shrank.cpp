// A shrinking factor that is 1 in f32, in which the scale is computed, was taken: a scale that was
// too large stayed as it was, and every step was skipped.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("issues");

namespace {

using namespace keel;

ExponentialLossScale shrinking_by(double ratio) {
  return {.init_loss_scale = 65536, .decr_every_n_nan_or_inf = 1, .decr_ratio = ratio};
}

}  // namespace

TEST_CASE("a loss scale that would never shrink is refused") {
  for (const double ratio : {0.99999999, 1 - 1e-9, 1 - std::ldexp(1, -25), 1.0}) {
    CAPTURE(ratio);
    Graph g;
    const std::string error = keel_test::error_of([&] { LossScaler(g, shrinking_by(ratio)); });
    CHECK_MESSAGE(
        keel_test::contains(error,
                            "LossScaler: decr_ratio: expected between 0 and 1, and less than 1 as "
                            "f32, got "),
        error);
  }
}

TEST_CASE("a loss scale shrinks by the largest factor below 1 that f32 has") {
  Graph g;
  const Value bad = g.constant(Tensor::full(boolean, {}, 0));
  const LossScaler scaler(g, shrinking_by(1 - std::ldexp(1, -24)));
  Session session(g, device("cpu"));
  // 65536 times 1 - 2^-24.
  CHECK(session.run(scaler.update(bad), scaler.scale()).at(0) == 65536);
  CHECK(session.run(scaler.scale()).at(0) == 65536 - std::ldexp(1, -8));
}

TEST_SUITE_END();
