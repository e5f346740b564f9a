#include "cli/bench/loop_timelines.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <keel/backends/npu/profile/profile.h>
#include <nlohmann/json.hpp>

#include "cli/bench/loop_training.h"
#include "cli/train/summary.h"

namespace keel_cli {
namespace {

struct Timeline {
  const char* name;
  bool data_sink;
  int64_t steps_per_call;
};
constexpr Timeline kTimelines[] = {{"host-driven", false, 1},
                                   {"While on the host", false, kTimelineSteps},
                                   {"asynchronous feeding only", true, 1},
                                   {"sunk", true, kTimelineSteps}};

// Where something happens on the page, and what it is.
struct Place {
  const char* lane;
  const char* kind;
};

Place place_of(const keel::npu::ProfiledSpan& span) {
  if (span.lane == "HOST") return {"host", "launch"};
  if (span.lane == "GETNEXT") return {"GetNext on the host", "get_next"};
  if (span.lane == "H2D") return {"link", "copy"};
  if (span.name.starts_with("wait")) return {"device", "wait"};
  return {"device", "busy"};
}

// Puts tasks of one step that follow one another into one span.
void add_span(const keel::npu::ProfiledSpan& span, keel::Json& lanes) {
  const Place place = place_of(span);
  if (span.end_ns == span.begin_ns) return;
  const double begin = static_cast<double>(span.begin_ns) * 1e-3;
  const double end = static_cast<double>(span.end_ns) * 1e-3;
  if (!lanes.empty()) {
    keel::Json& last = lanes.back();
    if (last["lane"] == place.lane && last["kind"] == place.kind && last["step"] == span.step &&
        last["end_us"] == begin) {
      last["end_us"] = end;
      return;
    }
  }
  lanes.push_back({{"lane", place.lane},
                   {"kind", place.kind},
                   {"step", span.step},
                   {"begin_us", begin},
                   {"end_us", end}});
}

// Adds the modelled device's time and lanes, on its own clock.
void add_device_clock(const keel::Program& program, int64_t steps_per_call, keel::Json& entry) {
  // Another backend may price its steps as well, but has no lanes.
  if (!program.info().step_device_ns || !keel::npu::has_profile(program)) return;
  const auto spans = keel::npu::profiled_spans(
      program, {.last_step = kTimelineSteps, .steps_per_launch = steps_per_call});
  int64_t end_ns = 0;
  keel::Json lanes = keel::Json::array();
  for (const keel::npu::ProfiledSpan& span : spans) {
    end_ns = std::max(end_ns, span.end_ns);
    if (span.step <= kStepsDrawn) add_span(span, lanes);
  }
  entry["device_us"] = static_cast<double>(end_ns) * 1e-3;
  entry["device_lanes"] = std::move(lanes);
}

void add_counts(const LoopCounts& counts, keel::Json& entry) {
  entry["steps"] = counts.steps;
  entry["launches"] = counts.launches;
  entry["round_trips"] = counts.round_trips;
  add_transfers(counts.transfers, entry);
}

}  // namespace

keel::Json measure_timelines(const BenchFlags& flags, const keel::LabelledImages& images) {
  // Batches are streamed where the host hands them over, so they are in all four.
  LoopTraining off(flags, images, {.data_sink = false, .cache = false});
  LoopTraining on(flags, images, {.data_sink = true, .cache = false});
  struct Contestant {
    const Timeline& timeline;
    LoopTraining& training;
    int64_t hundreds;
    std::vector<StepSplit> rounds;

    LoopMeasurement run(int64_t count) const {
      return training.call(count * kTimelineSteps / timeline.steps_per_call,
                           timeline.steps_per_call);
    }
  };
  std::vector<Contestant> contestants;
  for (const Timeline& timeline : kTimelines) {
    Contestant& made =
        contestants.emplace_back(Contestant{timeline, timeline.data_sink ? on : off, 1, {}});
    made.run(1);
    const double step_us = std::max(0.1, made.run(1).split.step);
    const double wanted = flags.seconds * 1e6 / kLoopRounds / step_us / kTimelineSteps;
    made.hundreds = std::max<int64_t>(1, std::llround(wanted));
  }
  for (int round = 0; round < kLoopRounds; ++round) {
    for (Contestant& one : contestants) one.rounds.push_back(one.run(one.hundreds).split);
  }
  keel::Json timelines = keel::Json::array();
  for (const Contestant& one : contestants) {
    keel::Json entry;
    entry["name"] = one.timeline.name;
    entry["data_sink"] = one.timeline.data_sink;
    entry["steps_per_call"] = one.timeline.steps_per_call;
    add_counts(one.run(1).counts, entry);
    add_split(one.rounds, entry);
    add_device_clock(one.training.program(), one.timeline.steps_per_call, entry);
    timelines.push_back(std::move(entry));
  }
  return timelines;
}

void print_timelines(const keel::Json& timelines) {
  const bool modelled = timelines[0].contains("device_us");
  std::cout << fmt::format(
      "four timelines of the same steps, streamed; counted in {} steps, wall time of a step in us\n"
      "{:<26} {:>9} {:>11} {:>10} {:>12} {:>10} {:>9} {:>9} {:>9}",
      kTimelineSteps, "timeline", "launches", "round trips", "to device", "bytes", "to host",
      "step", "busy", "wait");
  if (modelled) std::cout << fmt::format("  {:>15}", "device clock us");
  std::cout << "\n";
  for (const keel::Json& row : timelines) {
    std::cout << fmt::format("{:<26} {:>9} {:>11} {:>10} {:>12} {:>10} {:>9.2f} {:>9.2f} {:>9.2f}",
                             row["name"].get<std::string>(), row["launches"].get<int64_t>(),
                             row["round_trips"].get<int64_t>(),
                             row["copies_to_device"].get<int64_t>(),
                             row["bytes_to_device"].get<int64_t>(),
                             row["copies_to_host"].get<int64_t>(), row["step_us"].get<double>(),
                             row["busy_us"].get<double>(), row["queue_wait_us"].get<double>());
    if (modelled) {
      std::cout << fmt::format(
          "  {:>15.2f}", row["device_us"].get<double>() / static_cast<double>(kTimelineSteps));
    }
    std::cout << "\n";
  }
}

}  // namespace keel_cli
