// One timeline of several ranks, made of spans that are written here.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/backends/npu/profile/profile.h"
#include "keel/core/base/json.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;
using npu::RankTimeline;

// `late_ns`: how much later its second collective begins.
RankTimeline rank_with(int64_t late_ns) {
  return {.spans = {{"STREAM 0", "matmul", 2, 0, 7000},
                    {"HCCL", "bucket 1 of 2", 2, 5000, 9000},
                    {"HCCL", "bucket 2 of 2", 2, 9000 + late_ns, 12000 + late_ns},
                    {"HOST", "launch at step 2", 2, 0, 500}},
          .wall = {{"training, 3 steps", 0, 80000},
                   {"wait for ranks: bucket 1 of 2 of step 2", 1000, 3500, "COLLECTIVES (wall)"}},
          .wall_error_ns = 40 + late_ns};
}

// By name of the process, the lanes with how many spans each has.
std::map<std::string, std::map<std::string, int>> lanes_of(const Json& trace) {
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "M") continue;
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name") names[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  std::map<std::string, std::map<std::string, int>> lanes;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X")
      ++lanes[processes.at(event["pid"])][names.at({event["pid"], event["tid"]})];
  }
  return lanes;
}

TEST_CASE("npu profile: one timeline has a process for each rank and clock") {
  const Json trace =
      parse_json(npu::merged_timeline({rank_with(0), rank_with(0), rank_with(2500)}), "timeline");
  const std::map<std::string, int> device = {{"STREAM 0", 1}, {"HCCL", 2}, {"HOST", 1}};
  const std::map<std::string, int> wall = {{"HOST (wall)", 1}, {"COLLECTIVES (wall)", 1}};
  const auto lanes = lanes_of(trace);
  CHECK(lanes.size() == 6);
  for (const char* rank : {"rank 0", "rank 1", "rank 2"}) {
    CHECK(lanes.at(std::string(rank) + " (device clock)") == device);
    CHECK(lanes.at(std::string(rank) + " (wall clock)") == wall);
  }
  // A lane has the same number in each process.
  std::set<int> hccl;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["name"] == "bucket 1 of 2")
      hccl.insert(event["tid"].get<int>());
  }
  CHECK(hccl.size() == 1);
  const Json& other = trace["otherData"];
  CHECK(other["ranks"] == 3);
  CHECK(other["device_clock_skew_us"] == 2.5);
  CHECK(other["wall_clock_error_us"] == doctest::Approx(2.54));
  CHECK(other["complete"] == true);
}

TEST_CASE("npu profile: ranks with other collectives have no common skew") {
  RankTimeline other = rank_with(0);
  const auto skew = [&] {
    return parse_json(npu::merged_timeline({rank_with(0), other}),
                      "timeline")["otherData"]["device_clock_skew_us"];
  };
  CHECK(skew() == 0);
  other.spans[1].step = 3;
  CHECK(skew().is_null());
  other = rank_with(0);
  other.spans.erase(other.spans.begin() + 2);
  CHECK(skew().is_null());
}

TEST_CASE("npu profile: a rank's timeline travels as text") {
  RankTimeline sent = rank_with(100);
  sent.spans[0].name = "a \"name\"\n\xc3\xa9";
  const RankTimeline came = npu::read_rank_timeline(npu::write_rank_timeline(sent, 2), "rank 1");
  CHECK(npu::merged_timeline({came}) == npu::merged_timeline({sent}));
  CHECK(came.spans[2].step == 2);
  const std::pair<const char*, const char*> rules[] = {
      {"", "rank 1"},
      {R"({"spans": [], "wall": []})", "wall_error_ns"},
      {R"({"spans": [["HCCL", "b", 1, 2]], "wall": [], "wall_error_ns": 0})", "rank 1: spans[0]"},
      {R"({"spans": [], "wall": [["x", 1, 2, 3]], "wall_error_ns": 0})", "rank 1: wall[0][1]"},
      {R"({"spans": [], "wall": [], "wall_error_ns": -1})", "wall_error_ns"}};
  for (const auto& rule : rules) {
    const std::string error = error_of([&] { npu::read_rank_timeline(rule.first, "rank 1"); });
    CAPTURE(error);
    CHECK(contains(error, rule.second));
  }
}

}  // namespace

TEST_SUITE_END();
