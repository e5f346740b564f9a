// Finding a loop size from what launches took, with made-up launch times.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/runtime/loop_tuner.h"

#include "support/error_of.h"

namespace keel {
namespace {

// Launches of a step that takes `step_ns`, and `launch_ns` more for each launch, until the tuner
// has chosen; returns how many there were.
int launches_until_chosen(LoopTuner& tuner, double step_ns, double launch_ns) {
  for (int launch = 1; launch < 100000; ++launch) {
    const int64_t steps = tuner.next();
    tuner.record(steps, static_cast<int64_t>(launch_ns + step_ns * static_cast<double>(steps)));
    if (tuner.chosen()) return launch;
  }
  return -1;
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("loop tuner: the smallest size within two percent of the plateau") {
  // 40 us a step and 60 us a launch: 40.6 us a step in hundreds, 41.2 in fifties; no less
  // than 40.06.
  LoopTuner tuner = LoopTuner::plateau();
  CHECK(tuner.next() == 1);
  CHECK_FALSE(tuner.chosen().has_value());
  CHECK(launches_until_chosen(tuner, 40e3, 60e3) > 0);
  CHECK(*tuner.chosen() == 100);
  CHECK(tuner.next() == 100);
}

TEST_CASE("loop tuner: a launch that costs nothing leaves the size at one") {
  LoopTuner tuner = LoopTuner::plateau();
  CHECK(launches_until_chosen(tuner, 5e6, 100) > 0);
  CHECK(*tuner.chosen() == 1);
}

TEST_CASE("loop tuner: one slow launch does not decide") {
  LoopTuner tuner = LoopTuner::plateau();
  for (int launch = 0; launch < 100000 && !tuner.chosen(); ++launch) {
    const int64_t steps = tuner.next();
    const double disturbed = launch % 9 == 3 ? 50e6 : 0;
    tuner.record(steps, static_cast<int64_t>(disturbed + 60e3 + 40e3 * static_cast<double>(steps)));
  }
  CHECK(*tuner.chosen() == 100);
}

TEST_CASE("loop tuner: sizes that are always cut short are not tried for ever") {
  LoopTuner tuner = LoopTuner::plateau();
  for (int launch = 0; launch < 100000 && !tuner.chosen(); ++launch) {
    const int64_t steps = std::min<int64_t>(tuner.next(), 38);
    tuner.record(steps, 60'000 + 40'000 * steps);
  }
  CHECK(*tuner.chosen() == 20);  // 43 us a step, against 46 in tens
}

TEST_CASE("loop tuner: launches of a wanted time follow the step's time") {
  LoopTuner tuner = LoopTuner::time_target(0.25);
  CHECK(tuner.next() == 1);
  CHECK(launches_until_chosen(tuner, 40e3, 0) > 0);
  CHECK(tuner.next() == 6250);  // 250 ms of 40 us
  tuner.record(6250, 6250 * 80'000);
  CHECK(tuner.next() == 3125);
  tuner.record(3125, 3125 * 1'000'000'000LL);
  CHECK(tuner.next() == 1);
  tuner.record(0, 5);
  CHECK(tuner.next() == 1);
}

TEST_CASE("loop tuner: a time that is none is refused") {
  for (const double seconds : {0.0, -1.0, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    CAPTURE(seconds);
    const std::string error = keel_test::error_of([&] { LoopTuner::time_target(seconds); });
    CHECK(keel_test::contains(error, "LoopTuner: seconds: expected a finite number > 0"));
    CHECK(keel_test::contains(error, "test_loop_tuner.cpp"));
  }
  CHECK(LoopTuner::time_target(1e-9).next() == 1);
}

TEST_SUITE_END();

}  // namespace keel
