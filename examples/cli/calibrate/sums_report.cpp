// The sums of a comparison: the ops of each net one after the other, modelled beside measured, by
// class, with what they leave out.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>
#include <keel/core/base/json.h>
#include <keel/core/base/printable.h>
#include <nlohmann/json.hpp>

#include "cli/calibrate/report.h"

namespace keel_cli {
namespace {

using keel::Json;
using keel::npu::ComparedRow;
using keel::npu::Comparison;
using keel::npu::GroupSum;
using keel::npu::SumPart;

constexpr size_t kUnmappedTypes = 3;  // of a sum, those that take longest

// "-" for a part of nothing.
std::string ratio_of(double part, double whole, int64_t rows) {
  return rows == 0 || whole <= 0 ? "-" : fmt::format("{:.2f}", part / whole);
}

// Says what is not mapped of a sum.
std::string coverage_of(const GroupSum& sum) {
  if (sum.rows == 0) return "no rows in the table";
  if (sum.mapped() == 0) return "none is mapped";
  if (sum.unmapped == 0) return "all are mapped";
  return fmt::format("{} not mapped, {:.1f} us, {:.1f} % of the time", sum.unmapped,
                     sum.unmapped_us, 100 * sum.unmapped_us / (sum.unmapped_us + sum.measured_us));
}

// `missing`: what the whole sum leaves out; nothing where it leaves nothing out.
std::vector<std::string> cells_of(const std::string& name, const SumPart& part, int64_t mapped,
                                  double missing, const std::string& coverage) {
  const bool lacks = missing > 0 && part.missing_us() > 0;
  const double modelled = part.modelled_us - part.one_sided_modelled_us;
  const double measured = part.measured_us - part.one_sided_measured_us;
  const double of_bad = std::max(0.0, part.one_sided_missing_us());
  return {name,
          std::to_string(part.rows),
          fmt::format("{:.1f}", part.modelled_us),
          fmt::format("{:.1f}", part.measured_us),
          ratio_of(part.modelled_us, part.measured_us, mapped),
          ratio_of(modelled, measured, mapped - part.one_sided),
          part.one_sided == 0
              ? "-"
              : fmt::format("{} of {:.1f} us", part.one_sided, part.one_sided_measured_us),
          lacks ? fmt::format("{:.0f} %", 100 * part.missing_us() / missing) : "-",
          lacks ? fmt::format("{:.0f} %", 100 * of_bad / missing) : "-",
          coverage};
}

// OP types that are not mapped, those that take longest first.
std::vector<std::pair<std::string, SumPart>> longest_unmapped(const GroupSum& sum) {
  std::vector<std::pair<std::string, SumPart>> list(sum.unmapped_types.begin(),
                                                    sum.unmapped_types.end());
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return a.second.measured_us > b.second.measured_us;
  });
  list.resize(std::min(list.size(), kUnmappedTypes));
  return list;
}

Json json_of(const SumPart& part) {
  return {{"rows", part.rows},
          {"modelled_us", part.modelled_us},
          {"measured_us", part.measured_us},
          {"one_sided", part.one_sided},
          {"one_sided_modelled_us", part.one_sided_modelled_us},
          {"one_sided_measured_us", part.one_sided_measured_us}};
}

Json json_of(const Comparison& comparison, const GroupSum& sum) {
  Json json = json_of(static_cast<const SumPart&>(sum));
  json["unmapped"] = sum.unmapped;
  json["unmapped_us"] = sum.unmapped_us;
  json["coverage"] = coverage_of(sum);
  Json classes = Json::object(), types = Json::object(), missing = Json::array();
  for (const auto& [name, part] : sum.classes) classes[name] = json_of(part);
  for (const auto& [name, part] : sum.unmapped_types)
    types[name] = {{"rows", part.rows}, {"measured_us", part.measured_us}};
  for (const size_t i : sum.missing) missing.push_back(comparison.rows[i].row->line);
  json["classes"] = std::move(classes);
  json["unmapped_types"] = std::move(types);
  json["missing_lines"] = std::move(missing);
  return json;
}

}  // namespace

const std::vector<std::string>& sum_columns() {
  static const std::vector<std::string> columns = {
      "ops of",    "rows",        "modelled us", "measured us", "ratio",
      "two-sided", "bad kernels", "missing",     "by bad ones", "mapped"};
  return columns;
}

std::vector<std::vector<std::string>> sum_rows(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [group, sum] : comparison.sums) {
    const std::string name = group.empty() ? "all" : group;
    const double missing = sum.missing_us();
    rows.push_back(cells_of(name, sum, sum.mapped(), missing, coverage_of(sum)));
    std::vector<std::pair<std::string, SumPart>> parts(sum.classes.begin(), sum.classes.end());
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
      return a.second.missing_us() > b.second.missing_us();
    });
    for (const auto& [kind, part] : parts)
      rows.push_back(cells_of(name + ": " + kind, part, part.rows, missing, ""));
    for (const auto& [type, part] : longest_unmapped(sum)) {
      rows.push_back({name + ": " + type, std::to_string(part.rows), "-",
                      fmt::format("{:.1f}", part.measured_us), "-", "-", "-", "-", "-",
                      "not mapped"});
    }
  }
  return rows;
}

std::string sums_heading(const keel::npu::MeasuredTable& table) {
  return "Ops one after the other, by Device and " +
         (table.group_column.empty() ? "net" : table.group_column);
}

std::string sums_text(const keel::npu::MeasuredTable& table, const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows = {sum_columns()};
  for (std::vector<std::string>& cells : sum_rows(comparison)) rows.push_back(std::move(cells));
  std::vector<size_t> widths(sum_columns().size());
  for (std::vector<std::string>& cells : rows) {
    cells[0] = keel::printable(cells[0]);
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text = "\n" + keel::printable(sums_heading(table)) + "\n";
  for (const std::vector<std::string>& cells : rows) {
    text += fmt::format("  {:<{}}", cells[0], widths[0]);
    for (size_t i = 1; i + 1 < cells.size(); ++i)
      text += fmt::format("  {:>{}}", cells[i], widths[i]);
    if (!cells.back().empty()) text += "  " + cells.back();
    text += '\n';
  }
  for (const auto& [name, sum] : comparison.sums) {
    for (const size_t i : sum.missing) {
      const ComparedRow& row = comparison.rows[i];
      const int64_t count = row.row->count;
      const std::string which = count == 1 ? "row" : fmt::format("{} rows equal to row", count);
      text += fmt::format("  missing in {}: {:.1f} of {:.1f} us, {} {}: {}; {}\n",
                          name.empty() ? "all" : keel::printable(name),
                          static_cast<double>(count) * row.modelled_us(), row.row->total_us, which,
                          row.row->line, title_of(*row.row), reason_of(row));
    }
  }
  return text +
         "  two-sided: the ratio without bad kernels; missing: shares of what a sum leaves out of "
         "the measured time, by all and by bad kernels alone; gaps between ops are in no row and "
         "no "
         "sum\n";
}

Json sums_json(const Comparison& comparison) {
  Json sums = Json::object();
  for (const auto& [name, sum] : comparison.sums) sums[name] = json_of(comparison, sum);
  return sums;
}

}  // namespace keel_cli
