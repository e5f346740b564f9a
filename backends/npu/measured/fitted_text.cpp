// The text of a fitted preset's file.
#include <cmath>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "keel/backends/npu/measured/fit.h"
#include "keel/core/base/json.h"

namespace keel::npu {
namespace {

constexpr const char* kFitted = ", fitted";

// To four digits behind the point; whole numbers without any.
Json number_of(double value) {
  const double rounded = std::round(value * 1e4) / 1e4;
  if (rounded == std::floor(rounded)) return static_cast<int64_t>(rounded);
  return rounded;
}

Json value_of(const Preset& preset, const std::string& name, double value) {
  if (name != "hbm_efficiency") return number_of(value);
  Json points = Json::array();
  for (const EfficiencyPoint& point : preset.hbm_efficiency)
    points.push_back({number_of(point.bytes), number_of(point.share)});
  return points;
}

}  // namespace

std::string fitted_preset_text(const Fit& fit, const std::string& table_name) {
  Json parameters = Json::object();
  for (const PresetParameter& p : fit.preset.parameters) {
    parameters[p.name] = {{"value", parse_json(p.value, "preset")}, {"source", p.source}};
  }
  for (const FittedParameter& p : fit.parameters) {
    std::string classes;
    for (const auto& [name, rows] : p.by_class)
      classes += (classes.empty() ? "" : ", ") + std::to_string(rows) + " " + name;
    parameters[p.name] = {{"value", value_of(fit.preset, p.name, p.after)},
                          {"source", fmt::format("fitted on {} rows of {} by keel calibrate --fit "
                                                 "({}); from {:.4g} to {:.4g}, in steps of 5 "
                                                 "%, the criterion is within 1 % of its best",
                                                 p.rows, table_name, classes, p.low, p.high)}};
  }
  for (const FittedParameter& p : fit.untold) {
    parameters[p.name] = {{"value", value_of(fit.preset, p.name, p.after)},
                          {"source", "assumed: no rows tell it"}};
  }
  // A fit of a fitted preset is one fit, not two.
  std::string description = fit.preset.description;
  if (!description.ends_with(kFitted)) description += kFitted;
  const Json document = {{"description", std::move(description)},
                         {"series", fit.preset.series},
                         {"parameters", std::move(parameters)}};
  return write_json(document, 2) + "\n";
}

}  // namespace keel::npu
