#include "keel/backends/npu/measured/cross_validation.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <tuple>

#include "keel/backends/npu/measured/compare.h"
#include "keel/backends/npu/measured/fit_knobs.h"

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
  auto shared = std::make_shared<const Preset>(preset);
  return compare(table, [&](const std::string&) { return shared; }).classes.back();
}

double share_met(const ClassSummary& summary) {
  return summary.rows == 0 ? 0
                           : static_cast<double>(summary.met) / static_cast<double>(summary.rows);
}

const FittedParameter* find(const Fit& fit, const std::string& name) {
  for (const FittedParameter& p : fit.parameters) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

// Lists all parameters that either fit turns, in the order in which fits turn them.
std::vector<CrossValidation::Difference> differences(const Fit& own, const Fit& other) {
  std::vector<CrossValidation::Difference> list;
  for (const Knob& knob : knobs()) {
    const FittedParameter* in_other = find(other, knob.name);
    if (in_other == nullptr && find(own, knob.name) == nullptr) continue;
    list.push_back({.name = knob.name,
                    .own = knob.get(own.preset),
                    .other = knob.get(other.preset),
                    .rows = in_other == nullptr ? 0 : in_other->rows});
  }
  return list;
}

// Lets the other fit's preset have each value of the part's own, one at a time.
void find_regained(const MeasuredTable& part, const Preset& other, CrossValidation& validation) {
  for (CrossValidation::Difference& p : validation.parameters) {
    const auto knob = std::find_if(knobs().begin(), knobs().end(),
                                   [&](const Knob& k) { return k.name == p.name; });
    if (p.own == p.other) continue;
    Preset mixed = other;
    knob->set(mixed, p.own);
    p.regained = share_met(summary_of(part, mixed)) - validation.met;
  }
}

}  // namespace

double CrossValidation::Difference::moved() const {
  const double least = std::min(own, other), most = std::max(own, other);
  if (least == most) return 1;
  return least <= 0 ? std::numeric_limits<double>::infinity() : most / least;
}

const CrossValidation::Difference* CrossValidation::overfitted() const {
  if (loss() <= kMostLoss) return nullptr;
  const auto key = [](const Difference& p) {
    return std::tuple(std::max(0.0, p.regained), p.moved());
  };
  const auto most = std::max_element(parameters.begin(), parameters.end(),
                                     [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return most == parameters.end() || most->moved() == 1 ? nullptr : &*most;
}

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
    find_regained(tables[predicted], fits[other].preset, list.back());
  }
  return list;
}

}  // namespace keel::npu
