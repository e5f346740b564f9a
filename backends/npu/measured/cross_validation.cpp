#include "keel/backends/npu/measured/cross_validation.h"

#include <algorithm>
#include <memory>

#include "keel/backends/npu/measured/compare.h"

namespace keel::npu {
namespace {

MeasuredTable rows_of(const MeasuredTable& table, const TablePart& part) {
  MeasuredTable rows;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    if (part.has(i, table.rows[i])) rows.rows.push_back(table.rows[i]);
  }
  return rows;
}

ClassSummary summary_of(const MeasuredTable& table, const Preset& preset) {
  const auto shared = std::make_shared<const Preset>(preset);
  return compare(table, [&](const std::string&) { return shared; }).classes.back();
}

double share_met(const ClassSummary& summary) {
  return summary.rows == 0 ? 0
                           : static_cast<double>(summary.met) / static_cast<double>(summary.rows);
}

double value_in(const Fit& fit, const std::string& name, double otherwise) {
  for (const FittedParameter& p : fit.parameters) {
    if (p.name == name) return p.after;
  }
  return otherwise;
}

std::vector<CrossValidation::Difference> differences(const Fit& own, const Fit& other) {
  std::vector<CrossValidation::Difference> list;
  for (const FittedParameter& p : own.parameters)
    list.push_back({p.name, p.after, value_in(other, p.name, p.before)});
  for (const FittedParameter& p : other.parameters) {
    const bool told = std::any_of(list.begin(), list.end(),
                                  [&](const auto& known) { return known.name == p.name; });
    if (!told) list.push_back({p.name, p.before, p.after});
  }
  return list;
}

}  // namespace

std::vector<CrossValidation> cross_validate(const MeasuredTable& table, const Preset& start,
                                            const TablePart& first, const TablePart& second) {
  const TablePart* parts[] = {&first, &second};
  const MeasuredTable tables[] = {rows_of(table, first), rows_of(table, second)};
  const Fit fits[] = {fit_preset(tables[0], start), fit_preset(tables[1], start)};
  std::vector<CrossValidation> list;
  for (const size_t predicted : {size_t{1}, size_t{0}}) {
    const size_t other = 1 - predicted;
    const ClassSummary own = summary_of(tables[predicted], fits[predicted].preset);
    const ClassSummary from_other = summary_of(tables[predicted], fits[other].preset);
    list.push_back({parts[other]->name, parts[predicted]->name, own.rows, share_met(own),
                    share_met(from_other), differences(fits[predicted], fits[other])});
  }
  return list;
}

}  // namespace keel::npu
