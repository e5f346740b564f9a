#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/bench/page.h"
#include "cli/bench/plot.h"

namespace keel_cli {
namespace {

Figure split_figure(const keel::Json& json, const std::string& name) {
  Figure figure{
      "Wall time of a step, split",
      "busy: the device computes; waiting for data: of it the queue was empty; launch and "
      "host: between the device's last task and the next launch's first.",
      {},
      {"loop size", "step us", "+- %", "busy us", "wait us", "launch us", "host us",
       "copy us (beside)", "launches"},
      {}};
  BarPlot plot{"loop-split-" + name,
               "Wall time of a step by loop size",
               "wall time of a step, us",
               {},
               {{"busy", 8}, {"waiting for data", 5}, {"launch", 6}, {"host", 4}}};
  for (const keel::Json& row : json["sizes"]) {
    const int64_t size = row["loop_size"];
    plot.categories.push_back(fmt::format("loop size {}", size));
    const char* parts[] = {"busy_us", "queue_wait_us", "launch_us", "host_us"};
    for (size_t i = 0; i < 4; ++i) plot.layers[i].values.push_back(row[parts[i]]);
    figure.rows.push_back({std::to_string(size), us_of(row, "step_us"),
                           fmt::format("{:.1f}", row["step_spread"].get<double>() * 100),
                           us_of(row, "busy_us"), us_of(row, "queue_wait_us"),
                           us_of(row, "launch_us"), us_of(row, "host_us"), us_of(row, "copy_us"),
                           std::to_string(row["launches"].get<int64_t>())});
  }
  figure.plots.push_back(draw(plot));
  return figure;
}

Figure throughput_figure(const keel::Json& json, const std::string& name) {
  Figure figure{"Throughput by loop size",
                "Images a second of wall time, feeding and normalisation included.",
                {},
                {"loop size", "images/s", "+- %"},
                {}};
  const std::string backend = json["backend"];
  Series series{backend, {colour_of_backend(backend), 0}, {}};
  for (const keel::Json& row : json["sizes"]) {
    const double rate = json["batch"].get<double>() * 1e6 / row["step_us"].get<double>();
    const double spread = row["step_spread"];
    series.marks.push_back({row["loop_size"].get<double>(), rate, spread});
    figure.rows.push_back({std::to_string(row["loop_size"].get<int64_t>()),
                           fmt::format("{:.0f}", rate), fmt::format("{:.1f}", spread * 100)});
  }
  figure.plots.push_back(draw(LinePlot{"loop-throughput-" + name,
                                       figure.title,
                                       {"steps in a launch", true},
                                       {"images a second (wall time)"},
                                       {series}}));
  return figure;
}

Figure device_figure(const keel::Json& json, const std::string& name) {
  Figure figure{"Modelled device time of a step",
                "What the modelled " + json.value("npu_preset", std::string("NPU")) +
                    " would take: device clock, not to be compared with wall time.",
                {},
                {"loop size", "device us"},
                {}};
  const std::string backend = json["backend"];
  Series series{backend + " (device clock)", {colour_of_backend(backend), 2}, {}};
  for (const keel::Json& row : json["sizes"]) {
    if (!row.contains("step_device_us")) continue;
    series.marks.push_back({row["loop_size"].get<double>(), row["step_device_us"]});
    figure.rows.push_back(
        {std::to_string(row["loop_size"].get<int64_t>()), us_of(row, "step_device_us")});
  }
  figure.plots.push_back(draw(LinePlot{"loop-device-" + name,
                                       figure.title,
                                       {"steps in a launch", true},
                                       {"device time of a step, us"},
                                       {series}}));
  return figure;
}

}  // namespace

Section loop_section(const keel::Json& json) {
  const std::string model = json["model"], backend = json["backend"];
  const std::string name = model + "-" + backend;
  Section section{fmt::format("Loop: {} on {}", model, backend),
                  fmt::format("{} images a step, {} thread(s), {}, feed: {}; medians of {} rounds.",
                              json["batch"].get<int64_t>(), json["threads"].get<int64_t>(),
                              json["data"].get<std::string>(), json["feed"].get<std::string>(),
                              json["rounds"].get<int64_t>()),
                  {split_figure(json, name), throughput_figure(json, name)}};
  if (json["sizes"][0].contains("step_device_us"))
    section.figures.push_back(device_figure(json, name));
  for (Figure& figure : timeline_figures(json, name)) section.figures.push_back(std::move(figure));
  return section;
}

}  // namespace keel_cli
