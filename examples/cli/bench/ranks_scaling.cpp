#include "cli/bench/ranks_scaling.h"

#include <iostream>
#include <string>

#include <fmt/core.h>
#include <keel/backends/npu/cost/scaling.h>
#include <keel/backends/npu/presets/preset.h>
#include <keel/core/base/printable.h>
#include <nlohmann/json.hpp>

namespace keel_cli {
namespace {

constexpr const char* kPublishedPreset = "ascend910";

void add(keel::Json& rows, const keel::npu::ScaledTraining& training,
         const keel::npu::Preset& preset) {
  for (const keel::npu::ScalingPoint& point : keel::npu::scale(preset, training)) {
    rows.push_back({{"training", training.name},
                    {"npu_preset", preset.name},
                    {"gradient_bytes", training.gradient_bytes},
                    {"cards", point.cards},
                    {"algorithm", point.algorithm},
                    {"step_device_us", training.step_ms * 1e3},
                    {"all_reduce_device_us", point.reduce_ms * 1e3},
                    {"efficiency", point.efficiency},
                    {"overlapped_efficiency", point.overlapped_efficiency}});
  }
}

std::string verdict(const keel::npu::PublishedScaling& row) {
  if (!row.bound) return "reported only";
  if (!row.miss()) return fmt::format("within {:.0f} points", *row.bound * 100);
  return row.within_range() ? "MISS, between no overlap and full overlap" : "MISS";
}

}  // namespace

keel::Json model_scaling(const keel::Json& trainings) {
  keel::Json modelled = keel::Json::array(), published = keel::Json::array();
  const keel::npu::Preset preset = keel::npu::load_preset(kPublishedPreset);
  for (const keel::npu::ScaledTraining& training : keel::npu::published_trainings())
    add(modelled, training, preset);
  for (const keel::Json& training : trainings)
    add(modelled,
        {training["name"], training["gradient_bytes"],
         training["step_device_us"].get<double>() * 1e-3},
        *keel::npu::default_preset());
  for (const keel::npu::PublishedScaling& row : keel::npu::compare_published_scaling())
    published.push_back({{"training", row.training},
                         {"source", row.source},
                         {"cards", row.cards},
                         {"efficiency", row.efficiency},
                         {"lower_bound", row.lower_bound},
                         {"extra_ms", row.extra_ms},
                         {"modelled_extra_ms", row.modelled.reduce_ms},
                         {"modelled_efficiency", row.modelled.efficiency},
                         {"modelled_overlapped_efficiency", row.modelled.overlapped_efficiency},
                         {"error_points", row.error() * 100},
                         {"miss", row.miss()},
                         {"verdict", verdict(row)}});
  return {{"modelled_scaling", std::move(modelled)}, {"published_scaling", std::move(published)}};
}

void print_scaling(const keel::Json& tables) {
  std::cout << fmt::format(
      "\ndevice clock: efficiency on many cards, a batch each, without overlap - with full "
      "overlap\n"
      "{:<12} {:<14} {:>10} {:>6} {:>14} {:>17}\n",
      "training", "preset", "grad MB", "cards", "all-reduce us", "efficiency %");
  for (const keel::Json& row : tables["modelled_scaling"]) {
    std::cout << fmt::format(
        "{:<12} {:<14} {:>10.2f} {:>6} {:>14.1f} {:>8.1f} - {:>6.1f}\n",
        row["training"].get<std::string>(), keel::printable(row["npu_preset"].get<std::string>()),
        row["gradient_bytes"].get<double>() * 1e-6, row["cards"].get<int64_t>(),
        row["all_reduce_device_us"].get<double>(), row["efficiency"].get<double>() * 100,
        row["overlapped_efficiency"].get<double>() * 100);
  }
  std::cout << fmt::format(
      "\npublished beside the model without overlap\n{:<12} {:>6} {:>11} {:>11} "
      "{:>9} {:>9} {:>7}  {}\n",
      "training", "cards", "published %", "modelled %", "extra ms", "modelled", "points",
      "verdict");
  for (const keel::Json& row : tables["published_scaling"]) {
    std::cout << fmt::format("{:<12} {:>6} {:>11} {:>11.1f} {:>9.1f} {:>9.1f} {:>+7.1f}  {}\n",
                             row["training"].get<std::string>(), row["cards"].get<int64_t>(),
                             fmt::format("{}{:.1f}", row["lower_bound"].get<bool>() ? "> " : "",
                                         row["efficiency"].get<double>() * 100),
                             row["modelled_efficiency"].get<double>() * 100,
                             row["extra_ms"].get<double>(), row["modelled_extra_ms"].get<double>(),
                             row["error_points"].get<double>(), row["verdict"].get<std::string>());
  }
}

}  // namespace keel_cli
