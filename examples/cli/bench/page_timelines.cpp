#include <algorithm>
#include <map>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/bench/loop_timelines.h"
#include "cli/bench/page.h"
#include "cli/bench/plot.h"

namespace keel_cli {
namespace {

enum Kind : size_t { kLaunch, kGetNext, kCopy, kWait, kBusy };
const std::map<std::string, Kind>& kinds_by_name() {
  static const std::map<std::string, Kind> kinds = {{"launch", kLaunch},
                                                    {"get_next", kGetNext},
                                                    {"copy", kCopy},
                                                    {"wait", kWait},
                                                    {"busy", kBusy}};
  return kinds;
}
// By Kind.
std::vector<LanePlot::Kind> named_kinds() {
  return {{"launch", 6},
          {"the host hands over the batch", 3},
          {"copy to the device", 4},
          {"waiting for the batch", 5},
          {"busy", 8}};
}

std::string name_of(const keel::Json& row) { return row["name"].get<std::string>(); }
std::string count(const keel::Json& row, const char* key) {
  return std::to_string(row[key].get<int64_t>());
}

Figure counts_figure(const keel::Json& rows, const std::string& name) {
  const int64_t steps = rows[0]["steps"];
  Figure figure{fmt::format("Round trips and transfers of {} steps", steps),
                "Counted while they ran: launches, how often the host waited for the device, and "
                "the copies both ways. Asynchronous feeding takes no copy off the link, but takes "
                "it out of the step; where the device's memory is the host's, the queue copies "
                "nothing.",
                {},
                {"timeline", "launches", "round trips", "copies to the device", "bytes",
                 "copies to the host", "bytes"},
                {}};
  BarPlot plot{"loop-round-trips-" + name,
               figure.title,
               fmt::format("in {} steps", steps),
               {},
               {{"round trips", 6}, {"copies to the device", 4}, {"copies to the host", 2}}};
  for (const keel::Json& row : rows) {
    plot.categories.push_back(name_of(row));
    const char* keys[] = {"round_trips", "copies_to_device", "copies_to_host"};
    for (size_t i = 0; i < 3; ++i) plot.layers[i].values.push_back(row[keys[i]].get<double>());
    figure.rows.push_back({name_of(row), count(row, "launches"), count(row, "round_trips"),
                           count(row, "copies_to_device"), count(row, "bytes_to_device"),
                           count(row, "copies_to_host"), count(row, "bytes_to_host")});
  }
  figure.plots.push_back(draw(plot));
  return figure;
}

// The steps of a timeline as long as the medians are, one after the other: a launch where one
// begins, the wait for the batch, the device's work.
std::vector<LanePlot::Lane> wall_lanes(const keel::Json& row) {
  const std::string name = name_of(row);
  LanePlot::Lane host{name + ": host", {}, true}, device{name + ": device"};
  const int64_t steps = row["steps"], launches = row["launches"];
  const double of_a_launch = (row["host_us"].get<double>() + row["launch_us"].get<double>()) *
                             static_cast<double>(steps) / static_cast<double>(launches);
  double now = 0;
  const auto add = [&](LanePlot::Lane& lane, Kind kind, double length, const std::string& note) {
    if (length <= 0) return;
    lane.spans.push_back(
        {now, now + length, kind,
         fmt::format("{}: {}, {} us (wall time)", name, note, short_number(length))});
    now += length;
  };
  for (int64_t step = 0; step < kStepsDrawn; ++step) {
    const bool feeds = !row["data_sink"].get<bool>();
    const double wait = row["queue_wait_us"];
    if (feeds) add(host, kGetNext, wait, "the host makes the batch");
    if (step * launches % steps == 0) add(host, kLaunch, of_a_launch, "launch");
    if (!feeds) add(device, kWait, wait, "waiting for the batch");
    add(device, kBusy, row["busy_us"], "busy");
  }
  return {std::move(host), std::move(device)};
}

Figure wall_figure(const keel::Json& rows, const std::string& name) {
  Figure figure{"Four timelines, wall time",
                fmt::format("The first {} steps of each way to feed and launch them, drawn from "
                            "the medians of what their steps took. A host that feeds copies the "
                            "batch within its launch.",
                            kStepsDrawn),
                {},
                {"timeline", "step us", "+- %", "busy us", "wait us", "launch us", "host us",
                 "copy us (beside)"},
                {}};
  LanePlot plot{"loop-timelines-" + name, figure.title, "wall time, us", named_kinds()};
  for (const keel::Json& row : rows) {
    for (LanePlot::Lane& lane : wall_lanes(row)) plot.lanes.push_back(std::move(lane));
    figure.rows.push_back({name_of(row), us_of(row, "step_us"),
                           fmt::format("{:.1f}", row["step_spread"].get<double>() * 100),
                           us_of(row, "busy_us"), us_of(row, "queue_wait_us"),
                           us_of(row, "launch_us"), us_of(row, "host_us"), us_of(row, "copy_us")});
  }
  figure.plots.push_back(draw(plot));
  return figure;
}

std::vector<LanePlot::Lane> device_lanes(const keel::Json& row) {
  std::vector<LanePlot::Lane> lanes;
  for (const keel::Json& span : row["device_lanes"]) {
    const std::string lane = name_of(row) + ": " + span["lane"].get<std::string>();
    auto found = std::find_if(lanes.begin(), lanes.end(),
                              [&](const LanePlot::Lane& known) { return known.name == lane; });
    if (found == lanes.end()) found = lanes.insert(lanes.end(), {lane, {}, lanes.empty()});
    const std::string kind = span["kind"];
    const double begin = span["begin_us"], end = span["end_us"];
    found->spans.push_back(
        {begin, end, kinds_by_name().at(kind),
         fmt::format("{}, step {}: {}, {} us (device clock)", lane, span["step"].get<int64_t>(),
                     kind, short_number(end - begin))});
  }
  return lanes;
}

Figure clock_figure(const keel::Json& rows, const std::string& preset, const std::string& name) {
  const int64_t steps = rows[0]["steps"];
  Figure figure{"Four timelines, device clock",
                fmt::format("What the modelled {} would do in the first {} steps: device clock, "
                            "not to be compared with wall time.",
                            preset, kStepsDrawn),
                {},
                {"timeline", fmt::format("device us, {} steps", steps), "of a step"},
                {}};
  LanePlot plot{"loop-device-timelines-" + name, figure.title, "device time, us", named_kinds()};
  for (const keel::Json& row : rows) {
    for (LanePlot::Lane& lane : device_lanes(row)) plot.lanes.push_back(std::move(lane));
    const double device_us = row["device_us"];
    figure.rows.push_back({name_of(row), fmt::format("{:.2f}", device_us),
                           fmt::format("{:.2f}", device_us / static_cast<double>(steps))});
  }
  figure.plots.push_back(draw(plot));
  return figure;
}

}  // namespace

std::vector<Figure> timeline_figures(const keel::Json& json, const std::string& name) {
  const keel::Json& rows = json["timelines"];
  std::vector<Figure> figures = {counts_figure(rows, name), wall_figure(rows, name)};
  if (rows[0].contains("device_lanes"))
    figures.push_back(clock_figure(rows, json.value("npu_preset", std::string("NPU")), name));
  return figures;
}

}  // namespace keel_cli
