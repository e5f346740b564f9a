// The profile of a training with data sink on and off: who hands over the batches, and what that
// costs on the device clock.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/backends/npu/options.h"
#include "keel/backends/npu/profile/profile.h"
#include "keel/backends/registry.h"
#include "keel/core/base/json.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "npu_profile_for_tests.h"

namespace {

using namespace keel;
using npu::ProfiledSpan;
using npu_profile_test::Folder;
using npu_profile_test::Table;

// The mean of a batch that takes longer to copy than to sum: 10 us and 24 GB/s of the link.
constexpr int64_t kCopiedRows = 20000;
constexpr double kCopyUs = 10 + kCopiedRows * 784 / 24e3;
constexpr double kLaunchUs = 25;

struct MeanOfBatches {
  explicit MeanOfBatches(bool sink)
      : session(graph, device("npu:0"),
                {.device_options = npu::options("ascend910b1"), .data_sink = sink}),
        queue(std::make_shared<DeviceQueue>(session.device(),
                                            ElementSpec{{{"image", {u8, {kCopiedRows, 784}}}}},
                                            DeviceQueueOptions{.data_sink = sink})),
        loop(session.sink({.update = Update{{{total, mean(cast(image, f32))}}},
                           .fetches = {},
                           .source = queue})) {}
  Graph graph;
  Value image = graph.input("image", u8, {kCopiedRows, 784});
  Value total = graph.state("total", zeros({}, f32));
  Session session;
  std::shared_ptr<DeviceQueue> queue;
  Loop loop;
};

// By the lane's name, how often GetNext is in it.
std::map<std::string, int> get_next_by_place(const Json& timeline) {
  std::map<std::pair<int, int>, std::string> lanes;
  std::map<int, std::string> processes;
  for (const Json& event : timeline["traceEvents"]) {
    if (event["ph"] != "M") continue;
    const std::string name = event["args"]["name"];
    if (event["name"] == "process_name")
      processes[event["pid"].get<int>()] = name;
    else
      lanes[{event["pid"].get<int>(), event["tid"].get<int>()}] = name;
  }
  std::map<std::string, int> places;
  for (const Json& event : timeline["traceEvents"]) {
    if (event["ph"] != "X") continue;
    if (event["name"].get<std::string>().rfind("GetNext", 0) == 0)
      ++places[processes.at(event["pid"].get<int>())];
  }
  return places;
}

TEST_CASE("npu profile: GetNext is on the host with data sink off and on the device with it on") {
  for (const bool sink : {true, false}) {
    CAPTURE(sink);
    const MeanOfBatches training(sink);
    const Folder folder("profile_data_sink");
    npu::write_profile(training.loop.program(), {.directory = folder.path(), .last_step = 5});
    const Json timeline = parse_json(folder.read("timeline.json"), "timeline.json");
    const std::map<std::string, int> expected = {
        {sink ? "npu:0 (device clock)" : "host (device clock)", 5}};
    CHECK(get_next_by_place(timeline) == expected);
    const std::string text = folder.read("timeline.json");
    CHECK((text.find(sink ? "GetNext of step 2 on DEVICE" : "GetNext of step 2 on HOST") !=
           std::string::npos));
    const std::string advice = folder.read("advice.txt");
    CHECK((advice.find("waits") != std::string::npos));
    CHECK((advice.find("leave data_sink on") != std::string::npos) == !sink);
  }
}

TEST_CASE("npu profile: Data Aug Bound shrinks when data sink is on") {
  std::vector<double> bounds;
  for (const bool sink : {true, false}) {
    CAPTURE(sink);
    const MeanOfBatches training(sink);
    const Folder folder("profile_data_sink_bound");
    npu::write_profile(training.loop.program(),
                       {.directory = folder.path(), .first_step = 1, .last_step = 6});
    const Table table(folder.read("step_trace.csv"));
    REQUIRE(table.rows.size() == 7);
    // Off, the host launches behind the copy, and nothing hides that.
    const double step = table.number(3, "Iteration Time(us)");
    const double hidden = sink ? step + kLaunchUs : 0;
    for (size_t row = 2; row < table.rows.size(); ++row) {
      CHECK(table.number(row, "Launch(us)") == kLaunchUs);
      CHECK(table.number(row, "Data Aug Bound(us)") ==
            doctest::Approx(kCopyUs - hidden).epsilon(1e-4));
    }
    bounds.push_back(table.number(3, "Data Aug Bound(us)"));
  }
  CHECK(bounds[0] < bounds[1]);
}

TEST_CASE("npu profile: spans are those of the timeline but for the cores") {
  const MeanOfBatches training(false);
  const std::vector<ProfiledSpan> spans =
      npu::profiled_spans(training.loop.program(), {.first_step = 2, .last_step = 3});
  std::map<std::string, int> lanes;
  for (const ProfiledSpan& span : spans) {
    ++lanes[span.lane];
    CHECK(span.end_ns >= span.begin_ns);
    CHECK((span.step == 2 || span.step == 3));
    if (span.lane == "H2D")
      CHECK(static_cast<double>(span.end_ns - span.begin_ns) * 1e-3 ==
            doctest::Approx(kCopyUs).epsilon(1e-4));
    if (span.lane == "HOST")
      CHECK(static_cast<double>(span.end_ns - span.begin_ns) * 1e-3 == doctest::Approx(kLaunchUs));
  }
  CHECK(lanes["HOST"] == 2);
  CHECK(lanes["GETNEXT"] == 2);
  CHECK(lanes["H2D"] == 2);
  CHECK(lanes["STREAM 0"] >= 2);
  CHECK(lanes.count("QUEUE") == 0);
  CHECK_THROWS_AS(npu::profiled_spans(training.loop.program(), {.first_step = 0}), Error);
}

}  // namespace
