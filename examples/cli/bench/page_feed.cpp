#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/bench/page.h"
#include "cli/bench/plot.h"

namespace keel_cli {
namespace {

Figure rates_figure(const keel::Json& json, const std::string& name) {
  Figure figure{"Feeding rate, stage by stage",
                "Each stage with all before it, on one producer thread, with nobody waiting.",
                {},
                {"stage", "images/s so far", "own us/batch", "of a step"},
                {}};
  BarPlot plot{"feed-rates-" + name, figure.title, "images a second (wall time), so far", {}, {{}}};
  plot.layers[0].colour = 3;
  for (const keel::Json& stage : json["stages"]) {
    plot.categories.push_back(stage["name"]);
    plot.layers[0].values.push_back(stage["images_per_second"]);
    figure.rows.push_back({stage["name"],
                           fmt::format("{:.0f}", stage["images_per_second"].get<double>()),
                           fmt::format("{:.2f}", stage["own_us"].get<double>()),
                           fmt::format("{:.0f} %", stage["share_of_step"].get<double>() * 100)});
  }
  plot.categories.push_back("what the training takes");
  const double taken = json["batch"].get<double>() * 1e6 / json["step_us"].get<double>();
  plot.layers[0].values.push_back(taken);
  for (size_t i = 0; i < plot.categories.size(); ++i) {
    const bool training = i + 1 == plot.categories.size();
    plot.colours.push_back(training ? colour_of_backend(json["backend"]) : 3);
  }
  figure.rows.push_back({"what the training takes", fmt::format("{:.0f}", taken), "", ""});
  figure.plots.push_back(draw(plot));
  return figure;
}

Figure queue_figure(const keel::Json& json, const std::string& name) {
  Figure figure{"How full the queue was",
                "Elements that waited when the device came for the next one. Verdict: " +
                    json["verdict"].get<std::string>() + ".",
                {},
                {"elements waiting", "dequeues"},
                {}};
  // Quarters of the depth, with empty and full apart: a deep queue has more levels than a plot.
  const auto& counts = json["queue_occupancy"];
  const size_t depth = counts.size() - 1;
  BarPlot plot{"feed-queue-" + name, figure.title, "dequeues", {}, {{}}};
  const auto add = [&](size_t first, size_t last) {
    if (first > last) return;
    double sum = 0;
    for (size_t i = first; i <= last; ++i) sum += counts[i].get<double>();
    const std::string label =
        first == last ? std::to_string(first) : fmt::format("{} to {}", first, last);
    plot.categories.push_back(label + (first == 0 ? " (empty)" : last == depth ? " (full)" : ""));
    plot.layers[0].values.push_back(sum);
    figure.rows.push_back({plot.categories.back(), fmt::format("{:.0f}", sum)});
  };
  add(0, 0);
  size_t first = 1;
  for (size_t quarter = 1; quarter <= 4; ++quarter) {
    const size_t last = (depth - 1) * quarter / 4;
    if (depth > 0 && last >= first) add(first, last);
    first = std::max(first, last + 1);
  }
  if (depth > 0) add(depth, depth);
  figure.plots.push_back(draw(plot));
  return figure;
}

}  // namespace

Section feed_section(const keel::Json& json) {
  const std::string model = json["model"], backend = json["backend"];
  const std::string name = model + "-" + backend;
  return {fmt::format("Feeding: {} on {}", model, backend),
          fmt::format("{} images a batch, {}, {} map thread(s); a training step took {:.1f} us of "
                      "wall time, of which the device waited {:.1f} us for data.",
                      json["batch"].get<int64_t>(), json["data"].get<std::string>(),
                      json["map_threads"].get<int64_t>(), json["step_us"].get<double>(),
                      json["queue_wait_us"].get<double>()),
          {rates_figure(json, name), queue_figure(json, name)}};
}

}  // namespace keel_cli
