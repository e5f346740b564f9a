#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/bench/page.h"
#include "cli/bench/plot.h"

namespace keel_cli {
namespace {

using keel::Json;

// The rate of a limit, in its unit.
std::optional<double> limit(const Json& json, int64_t threads, const std::string& name,
                            const std::string& level) {
  for (const Json& row : json["limits"]) {
    if (row["threads"] == threads && row["name"] == name && row["level"] == level)
      return row["rate"].get<double>();
  }
  return std::nullopt;
}

void tabulate(const std::vector<Json>& rows, Figure& figure) {
  figure.head = {"kernel",  "dtype", "backend",   "us",           "+- %",
                 "GFLOP/s", "GB/s",  "flop/byte", "roof GFLOP/s", "share of roof"};
  const auto number = [](const Json& row, const char* key, const char* format) {
    return row.contains(key) ? fmt::format(fmt::runtime(format), row[key].get<double>()) : "";
  };
  for (const Json& row : rows) {
    figure.rows.push_back(
        {row["kernel"], row["dtype"], row["backend"], number(row, "us", "{:.2f}"),
         fmt::format("{:.1f}", row["spread"].get<double>() * 100), number(row, "gflops", "{:.2f}"),
         number(row, "gbytes_per_second", "{:.2f}"), number(row, "flop_per_byte", "{:.3g}"),
         number(row, "roof_gflops", "{:.1f}"), number(row, "share_of_roof", "{:.2f}")});
  }
}

// Horizontal where registers limit, climbing where memory does, up to where the two meet.
std::vector<Guide> roof_lines(const Json& json, int64_t threads, const std::string& dtype,
                              const std::vector<Json>& rows) {
  double least = 1e300, most = 0;
  for (const Json& row : rows) {
    least = std::min(least, row["flop_per_byte"].get<double>());
    most = std::max(most, row["flop_per_byte"].get<double>());
  }
  least *= 0.7;
  most *= 1.5;
  const std::string unit = dtype == "bf16" ? "multiply-add bf16" : "multiply-add f32";
  auto peak = limit(json, threads, unit, "registers");
  if (!peak) peak = limit(json, threads, "multiply-add f32", "registers");
  std::vector<Guide> guides;
  const double ceiling = peak.value_or(1e300);
  for (const char* level : {"cache", "memory"}) {
    const auto rate = limit(json, threads, "read", level);
    if (!rate) continue;
    const double meet = std::min(ceiling / *rate, most);
    if (meet <= least) continue;
    guides.push_back({fmt::format("read from {}: {} GB/s", level, short_number(*rate)),
                      {{least, least * *rate}, {meet, meet * *rate}}});
  }
  if (peak) {
    const auto cache = limit(json, threads, "read", "cache");
    const double from = cache ? std::max(least, *peak / *cache) : least;
    guides.push_back({fmt::format("{} peak: {} GFLOP/s", unit, short_number(*peak)),
                      {{std::min(from, most * 0.9), *peak}, {most, *peak}}});
  }
  return guides;
}

Figure roofline(const Json& json, int64_t threads, const std::string& dtype,
                const std::vector<Json>& rows) {
  static const std::map<std::string, int> kShapes = {
      {"products", 0}, {"elementwise", 1}, {"sums", 3}, {"softmax", 2}};
  Figure figure{fmt::format("Roofline, {}, {} thread{}", dtype, threads, threads == 1 ? "" : "s"),
                "Each mark is a kernel; the dashed lines are what this machine's registers, caches "
                "and memory did in the same run.",
                {},
                {},
                {}};
  std::vector<Series> all;
  for (const Json& row : rows) {
    const std::string kind = row["kind"], backend = row["backend"];
    const Look look{colour_of_backend(backend), kShapes.at(kind)};
    Series& series = series_named(all, backend + ": " + kind, look);
    series.line = false;
    series.marks.push_back(
        {row["flop_per_byte"], row["gflops"], row["spread"],
         fmt::format("{} {} on {}: {} GFLOP/s, {} GB/s, {} us, share of the roof {}",
                     row["kernel"].get<std::string>(), dtype, backend, short_number(row["gflops"]),
                     short_number(row["gbytes_per_second"]), short_number(row["us"]),
                     row.contains("share_of_roof") ? short_number(row["share_of_roof"]) : "-")});
  }
  figure.plots.push_back(draw(LinePlot{fmt::format("kernels-roofline-{}-{}", dtype, threads),
                                       figure.title,
                                       {"operations a byte of traffic", true},
                                       {"GFLOP/s (wall time)", true},
                                       all,
                                       roof_lines(json, threads, dtype, rows)}));
  tabulate(rows, figure);
  return figure;
}

Figure shares(int64_t threads, const std::string& dtype, const std::vector<Json>& rows) {
  Figure figure{
      fmt::format("Share of the roof, {}, {} thread{}", dtype, threads, threads == 1 ? "" : "s"),
      "1 is the lower of multiply-add peak and bandwidth, measured in turns with the kernel. Above "
      "1: the loop that measures the limit is not this machine's best.",
      {},
      {},
      {}};
  BarPlot plot{fmt::format("kernels-share-{}-{}", dtype, threads),
               figure.title,
               "share of the measured roof",
               {},
               {{}}};
  std::vector<Json> shown;
  for (const Json& row : rows) {
    if (!row.contains("share_of_roof")) continue;
    shown.push_back(row);
    plot.categories.push_back(row["kernel"].get<std::string>() + ", " +
                              row["backend"].get<std::string>());
    plot.layers[0].values.push_back(row["share_of_roof"]);
    plot.spreads.push_back(row["spread"]);
    plot.colours.push_back(colour_of_backend(row["backend"]));
  }
  figure.plots.push_back(draw(plot));
  tabulate(shown, figure);
  return figure;
}

}  // namespace

Section kernels_section(const Json& json) {
  Section section{"Kernels",
                  "Wall time on the device of a step that is one kernel, many steps in a launch; "
                  "operations are counted once for each element of a function such as exp.",
                  {}};
  std::map<std::pair<int64_t, std::string>, std::vector<Json>> groups;
  for (const Json& row : json["rows"]) groups[{row["threads"], row["dtype"]}].push_back(row);
  for (const auto& [key, rows] : groups) {
    section.figures.push_back(roofline(json, key.first, key.second, rows));
    const bool known = std::any_of(rows.begin(), rows.end(),
                                   [](const Json& row) { return row.contains("share_of_roof"); });
    if (known) section.figures.push_back(shares(key.first, key.second, rows));
  }
  return section;
}

}  // namespace keel_cli
