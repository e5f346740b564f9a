// Which rank of a training the others wait for. Expected values are worked out by hand.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/core/group/group.h"

#include "cli/train/rank_reports.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel_cli;
using Clock = keel::CollectiveTimes::Clock;

TEST_CASE("rank reports: the rank that waits least is the slowest") {
  const SlowestRank slowest = slowest_of(std::vector<double>{2.5, 0.5, 3.0});
  CHECK(slowest.rank == 1);
  CHECK(slowest.seconds == doctest::Approx(2.5));
  CHECK(slowest_of(std::vector<double>{1}).seconds == 0);
}

TEST_CASE("rank reports: a note is about the time between votes and the same until the next one") {
  const std::vector<std::shared_ptr<keel::Group>> groups = keel::make_local_groups(3);
  keel::CollectiveTimes& times = groups[0]->times();
  const auto wait = [&](std::chrono::hours long_time) {
    const Clock::time_point begin;
    times.add("sum", 1, begin, begin + long_time, begin + long_time);
  };
  // The other two say how long they have waited since the vote before, in hours.
  const auto vote = [&](float first, float second) {
    float seconds[3];
    times.give(seconds);
    seconds[1] = 3600 * first;
    seconds[2] = 3600 * second;
    times.take(seconds);
  };
  SlowestRankNote note(groups[0]);
  CHECK(note.next() == "");
  wait(std::chrono::hours(3));
  CHECK(note.next() == "");
  vote(2, 1);
  // Cut at all of the time.
  const std::string of_rank_2 = "slowest rank 2 (100 % of the time waited for)";
  CHECK(note.next() == of_rank_2);
  // Within a launch this rank alone knows that it waits.
  wait(std::chrono::hours(1));
  CHECK(note.next() == of_rank_2);
  wait(std::chrono::hours(1));
  CHECK(note.next() == of_rank_2);
  vote(1, 3);
  CHECK(note.next() == "slowest rank 1 (100 % of the time waited for)");
  vote(0, 0);
  CHECK(note.next() == "slowest rank 0 (0 % of the time waited for)");
}

TEST_CASE("rank reports: what is left of a training's seconds was computing") {
  const RankReport report{.seconds = 10, .queue_wait = 1, .collective_wait = 2, .collective = 3};
  CHECK(report.compute() == doctest::Approx(4));
  // Its ranks met before its launches began, say.
  CHECK(RankReport{.seconds = 1, .collective_wait = 2}.compute() == 0);
  keel::Json summary;
  add_rank_reports({{.steps = 5, .seconds = 2}, {.steps = 5, .collective_wait = 1}}, 8, summary);
  CHECK(summary["rank_metrics"][0]["images_per_second"] == 20);
  CHECK(summary["rank_metrics"][1]["images_per_second"] == 0);
  CHECK(summary["slowest_rank"]["rank"] == 0);
}

}  // namespace

TEST_SUITE_END();
