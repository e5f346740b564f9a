// The timeline of all ranks was an error where one rank's part of it was large: it was read under
// the budget for foreign files. Where spans were left out, nothing to compare was taken for clocks
// that agree.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/backends/npu/profile/profile.h"
#include "keel/core/base/json.h"
#include "keel/core/base/read_budget.h"

namespace keel {
namespace {

using npu::RankTimeline;

// As many ranks as this share the spans that a timeline keeps of all, so that few are to be made.
constexpr size_t kRanks = 1000;
constexpr size_t kShare = 200000 / kRanks;

// Each step has a product and a collective; `late_ns`: how much later this one begins.
RankTimeline timeline_of(int64_t steps, int64_t walls, int64_t late_ns = 0) {
  RankTimeline timeline{.wall_error_ns = 1};
  for (int64_t step = 1; step <= steps; ++step) {
    const int64_t begin = 100 * step;
    timeline.spans.push_back({"STREAM 0", "matmul", step, begin, begin + 50});
    timeline.spans.push_back(
        {"HCCL", "all_reduce", step, begin + 50 + late_ns, begin + 90 + late_ns});
  }
  for (int64_t i = 0; i < walls; ++i)
    timeline.wall.push_back({"sum", 100 * i, 100 * i + 1, "COLLECTIVES (wall)"});
  return timeline;
}

RankTimeline handed_over(const RankTimeline& timeline, size_t ranks = kRanks) {
  return npu::read_rank_timeline(npu::write_rank_timeline(timeline, ranks), "timeline of rank 1");
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a rank hands over its share of what a timeline of all ranks keeps") {
  const auto check = [](int64_t steps, int64_t walls, size_t spans, size_t wall, bool complete) {
    CAPTURE(steps);
    CAPTURE(walls);
    const RankTimeline came = handed_over(timeline_of(steps, walls));
    CHECK(came.spans.size() == spans);
    CHECK(came.wall.size() == wall);
    CHECK(came.complete == complete);
  };
  check(40, 30, 80, 30, true);
  check(kShare / 2 - 5, 10, kShare - 10, 10, true);
  check(1000, 10, kShare - 10, 10, false);
  check(1000, 1000, kShare / 2, kShare / 2, false);
  check(10, 1000, 20, kShare - 20, false);
  const RankTimeline came = handed_over(timeline_of(1000, 0));
  CHECK(came.spans.back().step == kShare / 2);
}

TEST_CASE("a timeline of ranks that left spans out says so and still knows their skew") {
  const RankTimeline whole = handed_over(timeline_of(40, 1)),
                     cut = handed_over(timeline_of(1000, 1, 7)),
                     cut_more = handed_over(timeline_of(1000, 70, 3));
  const auto about = [](const std::vector<RankTimeline>& ranks) {
    return parse_json(npu::merged_timeline(ranks), "timeline")["otherData"];
  };
  CHECK(about({whole, whole})["complete"] == true);
  // A rank says itself where it kept only some of its collectives.
  RankTimeline some = timeline_of(40, 1);
  some.complete = false;
  CHECK_FALSE(handed_over(some).complete);
  CHECK(about({whole, handed_over(some)})["complete"] == false);
  const Json other = about({cut, cut_more});
  CHECK(other["complete"] == false);
  CHECK(other["device_clock_skew_us"] == doctest::Approx(0.004));
}

TEST_CASE("a timeline of ranks has no skew where it left no collectives to compare") {
  // The collectives come behind more spans than a rank's share.
  const auto late = [](int64_t late_ns, size_t ranks) {
    RankTimeline timeline{.wall_error_ns = 1};
    for (int64_t i = 0; i < 300; ++i)
      timeline.spans.push_back({"STREAM 0", "matmul", 1, 100 * i, 100 * i + 50});
    timeline.spans.push_back({"HCCL", "all_reduce", 1, 40000 + late_ns, 40050 + late_ns});
    return handed_over(timeline, ranks);
  };
  const auto skew = [](const std::vector<RankTimeline>& ranks) {
    return parse_json(npu::merged_timeline(ranks), "timeline")["otherData"]["device_clock_skew_us"];
  };
  CHECK(skew({late(0, kRanks), late(9000, kRanks)}).is_null());
  CHECK(skew({late(0, 2), late(9000, kRanks)}).is_null());
  CHECK(skew({late(0, kRanks), late(9000, 2)}).is_null());
  CHECK(skew({late(0, 2), late(9000, 2)}) == 9.0);
}

TEST_CASE("a rank's timeline is read however large it is") {
  const uint64_t before = read_budget();
  set_read_budget(1000);
  const RankTimeline came = handed_over(timeline_of(50, 50));
  set_read_budget(before);
  CHECK(came.spans.size() == 100);
  CHECK(came.complete);
}

TEST_SUITE_END();

}  // namespace keel
