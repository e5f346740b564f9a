#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/bench/page.h"
#include "cli/bench/plot.h"

namespace keel_cli {
namespace {

using keel::Json;

std::string number(const Json& row, const char* key, int digits) {
  return fmt::format("{:.{}f}", row[key].get<double>(), digits);
}

Figure all_reduce_figure(const Json& json) {
  Figure figure{"Sums over ranks by size",
                "Of f32, medians, beside a copy of as many bytes in one process.",
                {},
                {"bytes", "all-reduce us", "95 % of them within us", "memcpy us", "memcpys"},
                {}};
  Series sums{"all-reduce", {1, 0}, {}}, copies{"memcpy", {2, 2}, {}};
  for (const Json& row : json["all_reduce"]) {
    const double bytes = row["bytes"];
    sums.marks.push_back({bytes, row["all_reduce_us"]});
    copies.marks.push_back({bytes, std::max(1e-3, row["memcpy_us"].get<double>())});
    figure.rows.push_back({std::to_string(row["bytes"].get<int64_t>()),
                           number(row, "all_reduce_us", 1), number(row, "all_reduce_p95_us", 1),
                           number(row, "memcpy_us", 2), number(row, "memcpys", 1)});
  }
  figure.plots.push_back(draw(LinePlot{
      "ranks-all-reduce", figure.title, {"bytes", true}, {"wall time, us", true}, {sums, copies}}));
  return figure;
}

Figure training_figure(const Json& json) {
  Figure figure{"Training steps by ranks",
                "One rank with as many threads as there are ranks, and the ranks with a thread "
                "each, on the same global batch.",
                {},
                {"model", "backend", "ranks", "threads", "batch", "step us", "+- %", "images/s",
                 "speed-up", "waited %"},
                {}};
  BarPlot plot{"ranks-steps", figure.title, "wall time of a step, us", {}, {{}}};
  for (const Json& row : json["steps"]) {
    plot.categories.push_back(fmt::format("{}, {} rank(s) of {} thread(s)",
                                          row["model"].get<std::string>(), row["ranks"].get<int>(),
                                          row["threads"].get<int>()));
    plot.layers[0].values.push_back(row["step_us"]);
    plot.spreads.push_back(row["step_spread"]);
    plot.colours.push_back(row["ranks"] == 1 ? 2 : 1);
    figure.rows.push_back(
        {row["model"], row["backend"], std::to_string(row["ranks"].get<int>()),
         std::to_string(row["threads"].get<int>()), std::to_string(row["batch"].get<int64_t>()),
         number(row, "step_us", 2), fmt::format("{:.1f}", row["step_spread"].get<double>() * 100),
         number(row, "images_per_second", 0),
         row.contains("speed_up") ? number(row, "speed_up", 2) : "",
         fmt::format("{:.1f}", row["collective_wait_share"].get<double>() * 100)});
  }
  figure.plots.push_back(draw(plot));
  return figure;
}

double percent(const Json& row, const char* key) { return row[key].get<double>() * 100; }

// The series of the model: for each training one without overlap and one with it.
std::vector<Series> modelled_series(const Json& json) {
  std::vector<Series> all;
  std::vector<std::string> names;
  for (const Json& row : json["modelled_scaling"]) {
    const std::string name = row["training"];
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    const auto colour =
        static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin()) % 8 + 1;
    const double cards = row["cards"];
    series_named(all, name + ", no overlap", {colour, 0})
        .marks.push_back({cards, percent(row, "efficiency"), 0, row["algorithm"]});
    series_named(all, name + ", full overlap", {colour, 2})
        .marks.push_back({cards, percent(row, "overlapped_efficiency")});
  }
  return all;
}

std::string percent_text(const Json& row, const char* key) {
  return fmt::format("{:.1f}", percent(row, key));
}

// Returns the rows of the model, then those of the published figures with the model beside them.
std::vector<std::vector<std::string>> scaling_rows(const Json& json) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& row : json["modelled_scaling"])
    rows.push_back({row["training"], std::to_string(row["cards"].get<int64_t>()), "",
                    percent_text(row, "efficiency"), percent_text(row, "overlapped_efficiency"), "",
                    fmt::format("{:.3f}", row["all_reduce_device_us"].get<double>() * 1e-3),
                    row["algorithm"], "", ""});
  for (const Json& row : json["published_scaling"])
    rows.push_back({row["training"], std::to_string(row["cards"].get<int64_t>()),
                    (row["lower_bound"].get<bool>() ? "> " : "") + percent_text(row, "efficiency"),
                    percent_text(row, "modelled_efficiency"),
                    percent_text(row, "modelled_overlapped_efficiency"), number(row, "extra_ms", 1),
                    number(row, "modelled_extra_ms", 3), "",
                    fmt::format("{:+.1f}", row["error_points"].get<double>()), row["verdict"]});
  return rows;
}

Figure scaling_figure(const Json& json) {
  std::string misses;
  for (const Json& row : json["published_scaling"]) {
    if (row["miss"].get<bool>())
      misses += fmt::format("{}{} on {} cards: {:+.1f} points", misses.empty() ? " Misses: " : "; ",
                            row["training"].get<std::string>(), row["cards"].get<int64_t>(),
                            row["error_points"].get<double>());
  }
  Figure figure{"Modelled scaling over cards",
                "Device clock: cards' worth of work for each card, a batch of its own each. A "
                "training lies between no overlap of sums and backward pass, and full overlap." +
                    (misses.empty() ? " No published figure is missed." : misses + "."),
                {},
                {"training", "cards", "published %", "modelled %", "with overlap %", "extra ms",
                 "modelled extra ms", "algorithm", "points", "verdict"},
                scaling_rows(json)};
  std::vector<Series> all = modelled_series(json);
  Series published{"published", {8, 3}, {}, /*line=*/false};
  for (const Json& row : json["published_scaling"]) {
    published.marks.push_back({row["cards"].get<double>(), percent(row, "efficiency"), 0,
                               fmt::format("{}, {}", row["training"].get<std::string>(),
                                           row["source"].get<std::string>())});
  }
  all.push_back(std::move(published));
  figure.plots.push_back(draw(LinePlot{"ranks-scaling",
                                       figure.title,
                                       {"cards", true},
                                       {"efficiency, % (device clock)", false},
                                       all}));
  return figure;
}

}  // namespace

Section ranks_section(const Json& json) {
  return {"Ranks",
          fmt::format("{} rank(s) on this machine, and cards as the device model has them.",
                      json["ranks"].get<int>()),
          {all_reduce_figure(json), training_figure(json), scaling_figure(json)}};
}

}  // namespace keel_cli
