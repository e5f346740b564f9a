#include "cli/calibrate/report.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>
#include <keel/core/base/json.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

namespace keel_cli {
namespace {

using keel::Json;
using keel::npu::ClassSummary;
using keel::npu::ComparedRow;
using keel::npu::Comparison;
using keel::npu::MeasuredRow;
using keel::npu::MeasuredTable;

constexpr size_t kUnmappedShown = 20;

// "-" for a share of nothing.
std::string percent(int64_t part, int64_t whole) {
  return whole == 0 ? "-"
                    : fmt::format("{:.1f} %",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// "-" for a quantile of no rows.
std::string ratio_of(double quantile, int64_t rows) {
  return rows == 0 ? "-" : fmt::format("{:.2f}", quantile);
}

}  // namespace

const std::vector<std::string>& summary_columns() {
  static const std::vector<std::string> columns = {
      "class", "rows",          "one-sided", "25 %",     "median",    "75 %",
      "met",   "two-sided met", "above",     "held out", "own blocks"};
  return columns;
}

std::vector<std::string> summary_cells(const ClassSummary& c) {
  const int64_t two_sided = c.rows - c.one_sided;
  return {c.name,
          std::to_string(c.rows),
          std::to_string(c.one_sided),
          ratio_of(c.low, two_sided),
          ratio_of(c.median, two_sided),
          ratio_of(c.high, two_sided),
          percent(c.met, c.rows),
          percent(c.met_two_sided, two_sided),
          percent(c.above, c.rows),
          percent(c.held_out_met, c.held_out),
          ratio_of(c.blocked_median, c.blocked_rows)};
}

namespace {

std::string table_of(const std::vector<ClassSummary>& classes) {
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    text += fmt::format("  {:<13}", cells[0]);
    for (size_t i = 1; i < cells.size(); ++i)
      text += fmt::format(" {:>{}}", cells[i], std::max<size_t>(8, summary_columns()[i].size()));
    text += '\n';
  };
  add(summary_columns());
  for (const ClassSummary& c : classes) add(summary_cells(c));
  return text;
}

Json json_of(const ClassSummary& c) {
  return {{"class", c.name},
          {"rows", c.rows},
          {"one_sided", c.one_sided},
          {"quartiles", {c.low, c.median, c.high}},
          {"met", c.met},
          {"met_two_sided", c.met_two_sided},
          {"above", c.above},
          {"held_out", c.held_out},
          {"held_out_met", c.held_out_met},
          {"median_with_measured_blocks", c.blocked_rows == 0 ? Json() : Json(c.blocked_median)}};
}

Json json_of(const std::vector<ClassSummary>& classes) {
  Json list = Json::array();
  for (const ClassSummary& c : classes) list.push_back(json_of(c));
  return list;
}

Json json_of(const ComparedRow& row) {
  Json json = {{"line", row.row->line},
               {"type", row.row->type},
               {"what", title_of(*row.row)},
               {"device", row.row->device},
               {"class", keel::npu::name_of(row.kind)},
               {"preset", row.preset},
               {"count", row.row->count},
               {"measured_us", row.row->us},
               {"modelled_us", row.modelled_us()},
               {"cold_us", static_cast<double>(row.cold.total_ns) * 1e-3},
               {"blocks", row.own.block_dim},
               {"one_sided", row.one_sided},
               {"held_out", row.held_out},
               {"overhead_ns", row.own.overhead_ns},
               {"bytes_in", row.own.bytes_in},
               {"bytes_out", row.own.bytes_out},
               {"compute_roof_us", static_cast<double>(row.cold.compute_roof_ns) * 1e-3},
               {"memory_roof_us", static_cast<double>(row.cold.memory_roof_ns) * 1e-3},
               {"reason", reason_of(row)}};
  if (row.row->block_dim) json["measured_blocks"] = *row.row->block_dim;
  if (row.as_blocked)
    json["modelled_us_with_measured_blocks"] = static_cast<double>(row.as_blocked->total_ns) * 1e-3;
  return json;
}

// OP types without a launch, those with most rows first.
std::vector<std::pair<std::string, int64_t>> by_count(const Comparison& comparison) {
  std::vector<std::pair<std::string, int64_t>> list(comparison.unmapped.begin(),
                                                    comparison.unmapped.end());
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return list;
}

}  // namespace

void require_device(const std::string& device, const std::string& path,
                    const MeasuredTable& table) {
  if (table.devices.contains(device)) return;
  std::string names;
  for (const std::string& name : table.devices)
    names += (names.empty() ? "" : ", ") + (name.empty() ? "rows without a device" : name);
  throw keel::Error({.op = "calibrate",
                     .argument = "--device",
                     .expected = "a Device of " + path + ", which has " + names,
                     .got = device,
                     .kind = keel::ErrorKind::kInvalidArgument});
}

std::string rows_text(const MeasuredTable& table) {
  const int64_t all = table.rows_in_file();
  if (all == static_cast<int64_t>(table.rows.size())) return fmt::format("{} rows", all);
  return fmt::format("{} rows, {} where equal ones are one", all, table.rows.size());
}

std::string title_of(const MeasuredRow& row) {
  std::string shapes, dtypes;
  const auto& inputs = row.op_inputs.empty() ? row.inputs : row.op_inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const char* separator = i == 0 ? "" : ";";
    std::string shape;
    for (const int64_t d : inputs[i].dims) shape += (shape.empty() ? "" : ",") + std::to_string(d);
    shapes += separator + shape;
    dtypes += separator + inputs[i].dtype_text;
  }
  return keel::printable(row.type + " " + shapes + " " + dtypes);
}

std::string comparison_text(const MeasuredTable& table, const Comparison& comparison) {
  std::set<std::string> presets;
  for (const ComparedRow& row : comparison.rows) presets.insert(row.preset);
  std::string names;
  for (const std::string& name : presets) names += (names.empty() ? "" : ", ") + name;
  std::string text = fmt::format(
      "{}, {} of them mapped to one launch each; presets: {}\n"
      "modelled / measured, by class; met: within {} to {}, and no more than {} where a kernel "
      "over {:.0f} us reaches less than {:.0f} % of either roof (one-sided, not in the "
      "quartiles)\n\n",
      rows_text(table), comparison.rows.size(), keel::printable(names), keel::npu::kLeastRatio,
      keel::npu::kMostRatio, keel::npu::kMostRatio, keel::npu::kBadKernelUs,
      100 * keel::npu::kBadKernelShare);
  text += table_of(comparison.classes);
  text +=
      "  two-sided met: of the rows that are not one-sided; held out: met of the fifth of the rows "
      "that no fit looks at; own blocks: the median with "
      "as "
      "many blocks as were measured\n";
  text += sums_text(table, comparison);
  if (comparison.by_device.size() > 1) {
    for (const auto& [device, classes] : comparison.by_device) {
      text +=
          fmt::format("\n{}\n", device.empty() ? "rows without a device" : keel::printable(device));
      text += table_of(classes);
    }
  }
  text += "\nthe worst of each class\n";
  for (const ClassSummary& c : comparison.classes) {
    if (&c == &comparison.classes.back()) break;
    for (const size_t i : c.worst) {
      const ComparedRow& row = comparison.rows[i];
      text += fmt::format("  {:<13} {:>6.2f}  {:>10.2f} of {:>10.2f} us  row {}: {}; {}\n", c.name,
                          row.ratio(), row.modelled_us(), row.row->us, row.row->line,
                          title_of(*row.row), reason_of(row));
    }
  }
  const auto unmapped = by_count(comparison);
  if (!unmapped.empty()) text += "\nnot mapped, by OP type\n";
  for (size_t i = 0; i < std::min(unmapped.size(), kUnmappedShown); ++i) {
    text += fmt::format("  {:>5}  {}: {}\n", unmapped[i].second, keel::printable(unmapped[i].first),
                        keel::printable(comparison.why_not.at(unmapped[i].first)));
  }
  if (unmapped.size() > kUnmappedShown)
    text += fmt::format("  and {} more types\n", unmapped.size() - kUnmappedShown);
  if (table.without_duration > 0)
    text += fmt::format("{} rows without a duration\n", table.without_duration);
  return text;
}

std::string comparison_json(const MeasuredTable& table, const Comparison& comparison) {
  Json rows = Json::array(), devices = Json::object(), unmapped = Json::object();
  for (const ComparedRow& row : comparison.rows) rows.push_back(json_of(row));
  for (const auto& [device, classes] : comparison.by_device) devices[device] = json_of(classes);
  for (const auto& [type, count] : comparison.unmapped)
    unmapped[type] = {{"rows", count}, {"reason", comparison.why_not.at(type)}};
  const Json json = {{"file_rows", table.rows_in_file()},
                     {"table_rows", table.rows.size()},
                     {"mapped", comparison.rows.size()},
                     {"without_duration", table.without_duration},
                     {"classes", json_of(comparison.classes)},
                     {"devices", std::move(devices)},
                     {"sums", sums_json(comparison)},
                     {"unmapped", std::move(unmapped)},
                     {"rows", std::move(rows)}};
  return keel::write_json(json, 1) + "\n";
}

}  // namespace keel_cli
