#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "keel/backends/npu/profile/profile.h"
#include "keel/backends/npu/profile/trace_events.h"
#include "keel/core/base/json.h"

namespace keel::npu {
namespace {

constexpr size_t kMostSpans = 200000;
constexpr const char* kDeviceLanes[] = {"HOST",    "GETNEXT",  "H2D", "QUEUE",
                                        "CONTROL", "STREAM 0", "HCCL"};

int device_process(size_t rank) { return static_cast<int>(2 * rank); }
int wall_process(size_t rank) { return static_cast<int>(2 * rank + 1); }

std::vector<ProfiledSpan> collectives_of(const RankTimeline& rank) {
  std::vector<ProfiledSpan> found;
  for (const ProfiledSpan& span : rank.spans) {
    if (span.lane == "HCCL") found.push_back(span);
  }
  return found;
}

bool are_complete(const std::vector<RankTimeline>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(),
                     [](const RankTimeline& rank) { return rank.complete; });
}

// Returns the most that the beginnings of one collective lie apart on the ranks' device clocks;
// nothing where the ranks do not have the same collectives. Where spans were left out, those that
// only some ranks have do not matter, but there must be one that all have.
std::optional<int64_t> device_skew_ns(const std::vector<RankTimeline>& ranks) {
  const std::vector<ProfiledSpan> first = collectives_of(ranks.front());
  const bool whole = are_complete(ranks);
  int64_t most = 0;
  std::vector<std::pair<int64_t, int64_t>> range;
  for (const ProfiledSpan& span : first) range.push_back({span.begin_ns, span.begin_ns});
  for (const RankTimeline& rank : ranks) {
    const std::vector<ProfiledSpan> own = collectives_of(rank);
    if (whole && own.size() != first.size()) return std::nullopt;
    if (!whole && own.empty()) return std::nullopt;
    for (size_t i = 0; i < std::min(own.size(), first.size()); ++i) {
      if (own[i].name != first[i].name || own[i].step != first[i].step) return std::nullopt;
      range[i].first = std::min(range[i].first, own[i].begin_ns);
      range[i].second = std::max(range[i].second, own[i].begin_ns);
      most = std::max(most, range[i].second - range[i].first);
    }
  }
  return most;
}

Json clocks_of(const std::vector<RankTimeline>& ranks) {
  int64_t error_ns = 0;
  for (const RankTimeline& rank : ranks) error_ns = std::max(error_ns, rank.wall_error_ns);
  const auto skew = device_skew_ns(ranks);
  return {{"ranks", ranks.size()},
          {"device_clock", "0 is the beginning of a rank's first launch"},
          {"device_clock_skew_us", skew ? Json(static_cast<double>(*skew) * 1e-3) : Json(nullptr)},
          {"wall_clock", "0 is the end of a gather of all ranks before their first step"},
          {"wall_clock_error_us", static_cast<double>(error_ns) * 1e-3}};
}

}  // namespace

std::string merged_timeline(const std::vector<RankTimeline>& ranks) {
  TraceEvents trace(kMostSpans);
  std::map<int, std::string> processes;
  for (size_t r = 0; r < ranks.size(); ++r) {
    processes[device_process(r)] = fmt::format("rank {} (device clock)", r);
    processes[wall_process(r)] = fmt::format("rank {} (wall clock)", r);
    LaneNumbers device_lanes, wall_lanes;
    for (const char* lane : kDeviceLanes) device_lanes.of(lane);
    for (const ProfiledSpan& span : ranks[r].spans)
      trace.span(device_process(r), device_lanes.of(span.lane), span.lane, span.name,
                 {span.begin_ns, span.end_ns});
    for (const WallSpan& span : ranks[r].wall)
      trace.span(wall_process(r), wall_lanes.of(span.lane), span.lane, span.name,
                 {span.begin_ns, span.end_ns});
  }
  Json other = ranks.empty() ? Json::object() : clocks_of(ranks);
  other["complete"] = !trace.full() && are_complete(ranks);
  return trace.finish(processes, other);
}

// Where there are too many spans, those of the wall clock get half of the rank's share, or what the
// device's leave of it.
std::string write_rank_timeline(const RankTimeline& timeline, size_t ranks) {
  const std::vector<ProfiledSpan>& device = timeline.spans;
  const size_t share = kMostSpans / std::max<size_t>(1, ranks);
  const size_t left = share - std::min(share, device.size());
  const size_t most_wall = std::min(timeline.wall.size(), std::max(share / 2, left));
  const size_t most_device = std::min(device.size(), share - most_wall);
  Json spans = Json::array(), wall = Json::array();
  for (size_t i = 0; i < most_device; ++i) {
    const ProfiledSpan& s = device[i];
    spans.push_back({s.lane, s.name, s.step, s.begin_ns, s.end_ns});
  }
  for (size_t i = 0; i < most_wall; ++i) {
    const WallSpan& s = timeline.wall[i];
    wall.push_back({s.lane, s.name, s.begin_ns, s.end_ns});
  }
  const bool whole = most_device == device.size() && most_wall == timeline.wall.size();
  return write_json({{"spans", std::move(spans)},
                     {"wall", std::move(wall)},
                     {"wall_error_ns", timeline.wall_error_ns},
                     {"complete", timeline.complete && whole}});
}

RankTimeline read_rank_timeline(const std::string& text, const std::string& source) {
  const Json json = parse_json(text, source, std::numeric_limits<uint64_t>::max());
  const JsonView view(json, source);
  RankTimeline timeline{.wall_error_ns = view["wall_error_ns"].integer(0)};
  const JsonView spans = view["spans"], wall = view["wall"];
  for (size_t i = 0; i < spans.size(); ++i)
    timeline.spans.push_back({.lane = spans[i][0].text(),
                              .name = spans[i][1].text(),
                              .step = spans[i][2].integer(),
                              .begin_ns = spans[i][3].integer(),
                              .end_ns = spans[i][4].integer()});
  for (size_t i = 0; i < wall.size(); ++i)
    timeline.wall.push_back({.name = wall[i][1].text(),
                             .begin_ns = wall[i][2].integer(),
                             .end_ns = wall[i][3].integer(),
                             .lane = wall[i][0].text()});
  timeline.complete = view["complete"].boolean();
  return timeline;
}

}  // namespace keel::npu
