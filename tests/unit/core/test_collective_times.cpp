// How long ranks wait for one another, by times that are made up.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/group/collective_times.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;

TEST_CASE("collective times: what ranks give is what the others take") {
  using Clock = CollectiveTimes::Clock;
  const auto at = [](int64_t us) { return Clock::time_point(std::chrono::microseconds(us)); };
  CollectiveTimes first(0, 2), second(1, 2);
  // Gives what both have, and takes the sums.
  const auto exchange = [&] {
    float of_first[2], of_second[2], sums[2];
    first.give(of_first);
    second.give(of_second);
    for (size_t i = 0; i < 2; ++i) sums[i] = of_first[i] + of_second[i];
    first.take(sums);
    second.take(sums);
  };
  second.add("sum", 1, at(100), at(350), at(360));
  CHECK(second.waited_ns(1) == 250'000);
  CHECK(first.waited_ns(1) == 0);
  exchange();
  first.add("sum", 2, at(0), at(20), at(90));
  second.add("sum", 2, at(400), at(1400), at(1400));
  exchange();
  exchange();
  // f32 seconds have seven digits.
  CHECK(std::abs(first.waited_ns(1) - 1'250'000) <= 1);
  CHECK(std::abs(second.waited_ns(0) - 20'000) <= 1);
  CHECK(first.waited_ns(0) == 20'000);
  CHECK(first.summed_ns() == 70'000);
  CHECK(second.summed_ns() == 10'000);
}

TEST_CASE("collective times: what all have waited is of the moment of their last vote") {
  using Clock = CollectiveTimes::Clock;
  CollectiveTimes times(1, 3);
  const auto wait = [&](int64_t ms) {
    const Clock::time_point begin;
    times.add("sum", 1, begin, begin + std::chrono::milliseconds(ms), begin);
  };
  CHECK(times.voted_waits().votes == 0);
  CHECK(times.voted_waits().waited_ns == std::vector<int64_t>{0, 0, 0});
  wait(250);
  float seconds[3];
  times.give(seconds);
  wait(1000);  // for the vote itself
  const float said[] = {0.5, seconds[1], 0};
  times.take(said);
  wait(4000);
  CHECK(times.voted_waits().votes == 1);
  CHECK(times.voted_waits().waited_ns == std::vector<int64_t>{500'000'000, 250'000'000, 0});
  CHECK(times.waited_ns(1) == 5'250'000'000);
}

TEST_CASE("collective times: the reductions of chosen steps are kept up to a number") {
  CollectiveTimes times(0, 1);
  const auto add = [&](const char* name, int64_t step) {
    const CollectiveTimes::Clock::time_point begin(std::chrono::microseconds(100 * step));
    times.add(name, step, begin, begin + std::chrono::microseconds(2),
              begin + std::chrono::microseconds(5));
  };
  add("before", 3);
  CHECK(times.recorded().empty());
  times.record(3, 4, 3);
  for (const int64_t step : {2, 3, 4, 5}) add("bucket 1 of 1, whose name is a long one", step);
  REQUIRE(times.recorded().size() == 2);
  CHECK(std::string(times.recorded()[0].name.data()) == "bucket 1 of 1, whose name is a ");
  CHECK(times.recorded()[1].step == 4);
  CHECK(times.recorded()[1].end - times.recorded()[1].met == std::chrono::microseconds(3));
  add("votes", 4);
  add("votes", 4);
  CHECK(times.recorded().size() == 3);
  CHECK(times.dropped() == 1);
  times.record(1, 2, 3);
  CHECK(times.dropped() == 0);
  for (int i = 0; i < 4; ++i) add("bucket", 2);
  CHECK(times.recorded().size() == 3);
  CHECK(times.dropped() == 1);
}

}  // namespace

TEST_SUITE_END();
