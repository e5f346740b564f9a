// Rates and scales that f32 does not hold became infinite in silence, and a decay of rate 0 became
// NaN. What optimizers and schedules were given was refused much later by the name of an op inside.
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

void check_rate_refused(int line, const std::string& who, const std::function<void()>& make) {
  CAPTURE(who);
  const std::string error = error_of(make);
  CAPTURE(error);
  CHECK(error.starts_with(who + ": expected"));
  CHECK(contains(error, "test_rates_beyond_f32.cpp:" + std::to_string(line)));
}

}  // namespace

TEST_CASE("rates beyond f32 are refused where they are given") {
  check_rate_refused(__LINE__, "learning rate", [] { sgd(1e300); });
  check_rate_refused(__LINE__, "step_decay: initial", [] { step_decay(1e300, 1, 0.5); });
  check_rate_refused(__LINE__, "step_decay: factor", [] { step_decay(1, 1, 1e300); });
  check_rate_refused(__LINE__, "cosine_decay: initial", [] { cosine_decay(1e300, 9); });
  check_rate_refused(__LINE__, "cosine_decay: final_rate", [] { cosine_decay(1, 9, {0, 1e300}); });
  check_rate_refused(__LINE__, "polynomial_decay: initial", [] { polynomial_decay(1e300, 9); });
  check_rate_refused(__LINE__ + 1, "polynomial_decay: power",
                     [] { polynomial_decay(1, 9, {.power = 1e300}); });
  check_rate_refused(__LINE__, "one_cycle: peak", [] { one_cycle(1e300, 99); });
  check_rate_refused(__LINE__ + 1, "one_cycle: first_divisor",
                     [] { one_cycle(1e30, 99, {.first_divisor = 1e-30}); });
  check_rate_refused(__LINE__, "reduce_on_plateau: initial", [] { reduce_on_plateau(1e300); });
  // The largest f32 is a rate, and a divisor may leave one of 0.
  CHECK_NOTHROW(sgd(3.4028234663852886e38));
  CHECK_NOTHROW(one_cycle(1, 99, {.last_divisor = 1e300}));
}

TEST_CASE("numbers of optimizers beyond f32 are refused where they are given") {
  check_rate_refused(__LINE__, "adam: epsilon", [] { adam(0.1, {.epsilon = 1e300}); });
  check_rate_refused(__LINE__, "adamw: weight_decay", [] { adamw(0.1, {.weight_decay = 1e300}); });
  check_rate_refused(__LINE__, "sgd: weight_decay", [] { sgd(0.1, {.weight_decay = 1e300}); });
  check_rate_refused(__LINE__, "rmsprop: epsilon", [] { rmsprop(0.1, {.epsilon = 1e300}); });
  check_rate_refused(__LINE__, "lion: weight_decay", [] { lion(0.1, {.weight_decay = 1e300}); });
  check_rate_refused(__LINE__, "adagrad: epsilon", [] { adagrad(0.1, {.epsilon = 1e300}); });
  check_rate_refused(__LINE__, "lamb: weight_decay", [] { lamb(0.1, {.weight_decay = 1e300}); });
}

TEST_CASE("loss scales beyond f32 or the loss are refused") {
  Graph g;
  check_rate_refused(__LINE__, "LossScaler: scale", [&] { LossScaler(g, FixedLossScale{1e39}); });
  const ExponentialLossScale growing{.incr_ratio = 1e300};
  check_rate_refused(__LINE__, "LossScaler: incr_ratio", [&] { LossScaler(g, growing); });
  const LossScaler scaler(g, FixedLossScale{1e6});
  const Value half = g.input("half", f16, {}), single = g.input("single", f32, {});
  check_rate_refused(__LINE__, "LossScaler: scale", [&] { scaler.scaled(half); });
  CHECK_NOTHROW(scaler.scaled(single));
}

TEST_CASE("a rate of zero stays zero whatever it is multiplied by") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    for (const double initial : {0.0, 1e-50}) {
      Graph g;
      const Value w = g.state("w", ones({2}));
      const Update train = sgd(step_decay(initial, 1, 1e30)).minimize(sum(w));
      Session session(g, device(name));
      for (int step = 0; step < 4; ++step) session.run(train, Values{}, {});
      CHECK(session.read(w).at(0) == 1);
    }
  }
}

TEST_SUITE_END();
