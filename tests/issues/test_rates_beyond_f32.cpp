// A learning rate that is infinite in f32 was taken, and made weights of NaN in the first step.
#include <doctest/doctest.h>

#include "keel/ops/nn/optimizers.h"
#include "keel/ops/nn/schedules.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("nn");

TEST_CASE("rates that are infinite in f32 are refused where they are given") {
  using namespace keel;
  using keel_test::contains;
  using keel_test::error_of;
  const auto check = [](const std::string& error, const char* begin) {
    INFO(error);
    CHECK(contains(error,
                   std::string(begin) + ": expected a number that is finite in f32, got 1e+300"));
    CHECK(contains(error, "test_rates_beyond_f32.cpp"));
  };
  check(error_of([] { sgd(1e300); }), "learning rate");
  check(error_of([] { adam(1e300); }), "learning rate");
  check(error_of([] { step_decay(1e300, 1, 0.5); }), "step_decay: initial");
  check(error_of([] { cosine_decay(1e300, 10); }), "cosine_decay: initial");
  check(error_of([] { cosine_decay(1, 10, {.final_rate = 1e300}); }), "cosine_decay: final_rate");
  check(error_of([] { polynomial_decay(1e300, 10); }), "polynomial_decay: initial");
  check(error_of([] { one_cycle(1e300, 10); }), "one_cycle: peak");
  CHECK_NOTHROW(sgd(3.4e38));
}

TEST_SUITE_END();
