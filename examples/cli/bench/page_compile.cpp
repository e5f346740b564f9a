#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/bench/compile_counts.h"
#include "cli/bench/page.h"
#include "cli/bench/plot.h"

namespace keel_cli {
namespace {

using keel::Json;

std::string ms(const Json& row, const std::string& key) {
  return fmt::format("{:.2f}", row[key].get<double>() * 1e-3);
}

void tabulate(const Json& json, Figure& figure) {
  figure.head = {"graph",       "backend",          "nodes",      "after passes", "tasks",
                 "build ms",    "differentiate ms", "compile ms", "total ms",     "+- %",
                 "scratch KiB", "memory plan ratio"};
  for (const Json& row : json["rows"]) {
    const CompileCounts counts = counts_of_passes(row["passes"]);
    figure.rows.push_back(
        {row["graph"], row["backend"], std::to_string(row["nodes"].get<int64_t>()),
         std::to_string(counts.fused), std::to_string(counts.tasks), ms(row, "build_us"),
         ms(row, "differentiate_us"), ms(row, "compile_us"), ms(row, "total_us"),
         fmt::format("{:.1f}", row["total_spread"].get<double>() * 100),
         fmt::format("{:.1f}", row["scratch_bytes"].get<double>() / 1024),
         fmt::format("{:.3f}", row["memory_plan_ratio"].get<double>())});
  }
}

std::string category_of(const Json& row) {
  return fmt::format("{}, {}, {} nodes", row["graph"].get<std::string>(),
                     row["backend"].get<std::string>(), row["nodes"].get<int64_t>());
}

std::string growth_text(const Json& json) {
  std::string text;
  for (const Json& row : json["growth"]) {
    text +=
        fmt::format("{}{} on {}: {:.2f}", text.empty() ? "" : "; ", row["graph"].get<std::string>(),
                    row["backend"].get<std::string>(), row["total"].get<double>());
  }
  return text.empty() ? "" : " Time grows as nodes to the power of: " + text + ".";
}

Figure growth_figure(const Json& json) {
  Figure figure{"Time to build, differentiate and compile",
                "From nothing to a program that can be launched." + growth_text(json),
                {},
                {},
                {}};
  std::vector<Series> all;
  for (const Json& row : json["rows"]) {
    const std::string graph = row["graph"], backend = row["backend"];
    const Look look{colour_of_backend(backend), graph == "chain" ? 0 : 2};
    series_named(all, fmt::format("{} on {}", graph, backend), look)
        .marks.push_back({row["nodes"].get<double>(), row["total_us"].get<double>() * 1e-3,
                          row["total_spread"]});
  }
  figure.plots.push_back(draw(LinePlot{"compile-growth",
                                       figure.title,
                                       {"nodes of the user's graph", true},
                                       {"total, ms (wall time)", true},
                                       all}));
  tabulate(json, figure);
  return figure;
}

Figure phases_figure(const Json& json) {
  Figure figure{"Where the time goes, for each thousand nodes",
                "build: the user's code; differentiate: the gradient, expanded; compile: the other "
                "passes and the backend. The states' first values are not in it.",
                {},
                {},
                {}};
  BarPlot plot{"compile-phases",
               figure.title,
               "wall time, ms for each 1000 nodes",
               {},
               {{"build", 8}, {"differentiate", 5}, {"compile", 4}}};
  for (const Json& row : json["rows"]) {
    plot.categories.push_back(category_of(row));
    const char* keys[] = {"build_us", "differentiate_us", "compile_us"};
    for (size_t i = 0; i < 3; ++i) {
      plot.layers[i].values.push_back(row[keys[i]].get<double>() / row["nodes"].get<double>());
    }
  }
  figure.plots.push_back(draw(plot));
  tabulate(json, figure);
  return figure;
}

Figure memory_figure(const Json& json) {
  Figure figure{"Memory plan",
                "Scratch bytes against the most that are live at any one task; 1 cannot be beaten.",
                {},
                {},
                {}};
  BarPlot plot{"compile-memory", figure.title, "scratch bytes / lower bound", {}, {{}}};
  for (const Json& row : json["rows"]) {
    plot.categories.push_back(category_of(row));
    plot.layers[0].values.push_back(row["memory_plan_ratio"]);
    plot.colours.push_back(colour_of_backend(row["backend"]));
  }
  figure.plots.push_back(draw(plot));
  tabulate(json, figure);
  return figure;
}

}  // namespace

Section compile_section(const Json& json) {
  return {"Compiling",
          fmt::format("Training steps of deep and of branching graphs; medians of {} round(s).",
                      json["rounds"].get<int64_t>()),
          {growth_figure(json), phases_figure(json), memory_figure(json)}};
}

}  // namespace keel_cli
