// The page of a comparison: modelled against measured as a plot, and its tables.
#include <algorithm>
#include <limits>

#include <fmt/core.h>
#include <keel/core/base/printable.h>

#include "cli/base/html.h"
#include "cli/bench/plot.h"
#include "cli/calibrate/report.h"

namespace keel_cli {
namespace {

using keel::npu::ClassSummary;
using keel::npu::ComparedRow;
using keel::npu::Comparison;

// There are more classes than colours: those of one colour have other shapes.
constexpr int kColours = 8, kShapes = 4;

std::string plot_of(const Comparison& comparison) {
  LinePlot plot{.id = "modelled",
                .title = "modelled against measured duration, by class",
                .x = {"measured us", true},
                .y = {"modelled us", true},
                .series = {}};
  double low = std::numeric_limits<double>::max(), high = 0;
  for (const ComparedRow& row : comparison.rows) {
    if (row.own.total_ns <= 0) continue;
    const int number = static_cast<int>(row.kind);
    Series& series = series_named(
        plot.series, keel::npu::name_of(row.kind),
        {.colour = number % kColours + 1, .shape = (number / kColours + number) % kShapes});
    series.line = false;
    series.marks.push_back(
        {.x = row.row->us,
         .y = row.modelled_us(),
         .note = fmt::format("row {}: {}, {:.2f} us measured, {:.2f} modelled", row.row->line,
                             title_of(*row.row), row.row->us, row.modelled_us())});
    low = std::min({low, row.row->us, row.modelled_us()});
    high = std::max({high, row.row->us, row.modelled_us()});
  }
  if (plot.series.empty()) return "";
  const auto guide = [&](const char* name, double ratio) {
    plot.guides.push_back({name, {{low, low * ratio}, {high, high * ratio}}});
  };
  guide("equal", 1);
  guide("", keel::npu::kMostRatio);
  guide("", keel::npu::kLeastRatio);
  return draw(plot);
}

std::string summary_of(const std::vector<ClassSummary>& classes) {
  std::vector<std::vector<std::string>> rows;
  for (const ClassSummary& c : classes) rows.push_back(summary_cells(c));
  return html_table(summary_columns(), rows);
}

std::string worst_of(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows;
  for (const ClassSummary& c : comparison.classes) {
    if (&c == &comparison.classes.back()) break;
    for (const size_t i : c.worst) {
      const ComparedRow& row = comparison.rows[i];
      rows.push_back({c.name, std::to_string(row.row->line), title_of(*row.row),
                      fmt::format("{:.2f}", row.row->us), fmt::format("{:.2f}", row.modelled_us()),
                      fmt::format("{:.2f}", row.ratio()), reason_of(row)});
    }
  }
  return html_table({"class", "row", "op", "measured us", "modelled us", "ratio", "reason"}, rows,
                    "text");
}

}  // namespace

std::string comparison_page(const std::string& path, const keel::npu::MeasuredTable& table,
                            const Comparison& comparison) {
  std::string body = html_facts({{"table", keel::printable(path)},
                                 {"holds", rows_text(table)},
                                 {"mapped", std::to_string(comparison.rows.size())}});
  body += html_element("h2", "Modelled against measured") + plot_of(comparison);
  body += html_element("h2", "By class") + summary_of(comparison.classes);
  for (const auto& [device, classes] : comparison.by_device) {
    if (comparison.by_device.size() < 2) break;
    body += html_element("h2", device.empty() ? "Rows without a device" : keel::printable(device));
    body += summary_of(classes);
  }
  std::vector<std::vector<std::string>> sums = sum_rows(comparison);
  for (std::vector<std::string>& cells : sums) cells[0] = keel::printable(cells[0]);
  body +=
      html_element("h2", keel::printable(sums_heading(table))) + html_table(sum_columns(), sums);
  body += html_element("h2", "The worst of each class") + worst_of(comparison);
  std::vector<std::vector<std::string>> unmapped;
  for (const auto& [type, count] : comparison.unmapped)
    unmapped.push_back({keel::printable(type), std::to_string(count),
                        keel::printable(comparison.why_not.at(type))});
  if (!unmapped.empty()) {
    body += html_element("h2", "Not mapped") +
            html_table({"OP type", "rows", "reason"}, unmapped, "text");
  }
  return html_page("Device model against measurements", body);
}

}  // namespace keel_cli
