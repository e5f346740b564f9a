// The reports of fits, as text, and of cross-validations, as text and as JSON.
#include <fmt/core.h>
#include <keel/core/base/json.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/calibrate/report.h"

namespace keel_cli {

namespace {

using keel::Json;
using keel::npu::CrossValidation;

// Says what is overfitted, or not told at all, where a fit loses more than it may.
std::string overfitting_of(const CrossValidation& v) {
  const auto* p = v.overfitted();
  if (p == nullptr) return "loses too much, though both fits have the same parameters";
  const std::string regains = fmt::format("its own value alone regains {:.1f} of {:.1f} points",
                                          100 * p->regained, 100 * v.loss());
  // Then no row has set the value that predicts, so that no fit went too far.
  if (p->rows == 0) {
    return fmt::format(
        "no rows of the part that predicts tell {}, which moved from {:.4g} to {:.4g}; {}", p->name,
        p->other, p->own, regains);
  }
  return fmt::format(
      "overfitted: {}, which rests on {} of the rows that predict and moved from {:.4g} to {:.4g}; "
      "{}",
      p->name, p->rows, p->other, p->own, regains);
}

}  // namespace

std::string fit_text(const std::string& start, const keel::npu::Fit& fit) {
  std::string text = fmt::format("fitted from {}\n", keel::printable(start));
  const auto line = [](const char* what, const keel::npu::FitQuality& before,
                       const keel::npu::FitQuality& after) {
    return fmt::format(
        "  {:<9} {:>5} rows: met {:.1f} %, before {:.1f} %; mean distance {:.3f}, before {:.3f}\n",
        what, after.rows, 100 * after.met, 100 * before.met, after.distance, before.distance);
  };
  text += line("fitted", fit.before, fit.after);
  text += line("held out", fit.held_out_before, fit.held_out_after);
  if (fit.left_out > 0)
    text += fmt::format("  left out  {:>5} rows: no number holds their work\n", fit.left_out);
  for (const keel::npu::FitStart& s : fit.starts) {
    text += fmt::format("  searched from {}: mean distance {:.4f}{}\n", s.name, s.criterion,
                        s.kept ? ", kept" : "");
  }
  text += fmt::format("  {:<20} {:>10} {:>10}  {:>21}  {}\n", "parameter", "before", "fitted",
                      "criterion within 1 %", "rows that it rests on");
  for (const keel::npu::FittedParameter& p : fit.parameters) {
    std::string classes;
    for (const auto& [name, rows] : p.by_class)
      classes += (classes.empty() ? "" : ", ") + std::to_string(rows) + " " + name;
    text += fmt::format("  {:<20} {:>10.4g} {:>10.4g}  {:>9.4g} .. {:>9.4g}  {}: {}\n", p.name,
                        p.before, p.after, p.low, p.high, p.rows, classes);
  }
  for (const keel::npu::FittedParameter& p : fit.untold) {
    text += fmt::format("  {:<20} {:>10.4g} {:>10.4g}  assumed: no rows tell it\n", p.name,
                        p.before, p.after);
  }
  return text;
}

std::string cross_validation_text(const std::vector<CrossValidation>& list) {
  std::string text;
  for (const CrossValidation& v : list) {
    text += fmt::format(
        "fitted on {}, predicting {}: met {:.1f} % of {} rows; fitted on them {:.1f} %: loses "
        "{:.1f} points\n",
        v.fitted_on, v.predicted, 100 * v.met, v.rows, 100 * v.met_by_own, 100 * v.loss());
    text += fmt::format("  {:<20} {:>10} {:>10} {:>8} {:>9}\n", "parameter", "predicted", "own",
                        "rests on", "regains");
    for (const auto& p : v.parameters) {
      text += fmt::format("  {:<20} {:>10.4g} {:>10.4g} {:>8} {:>9.1f}\n", p.name, p.other, p.own,
                          p.rows, 100 * p.regained);
    }
    if (v.loss() > keel::npu::kMostLoss) text += "  " + overfitting_of(v) + "\n";
  }
  return text +
         "predicted: the value that predicts and the rows that it rests on; own: the value of the "
         "fit to what is predicted, and the points that it alone regains\n";
}

std::string cross_validation_json(const std::vector<CrossValidation>& list) {
  Json validations = Json::array();
  for (const CrossValidation& v : list) {
    Json parameters = Json::array();
    for (const auto& p : v.parameters) {
      parameters.push_back({{"name", p.name},
                            {"predicted", p.other},
                            {"own", p.own},
                            {"rests_on_rows", p.rows},
                            {"regained", p.regained}});
    }
    const auto* overfitted = v.overfitted();
    validations.push_back(
        {{"fitted_on", v.fitted_on},
         {"predicted", v.predicted},
         {"rows", v.rows},
         {"met", v.met},
         {"met_by_own", v.met_by_own},
         {"loss", v.loss()},
         {"parameters", std::move(parameters)},
         {"overfitted", overfitted == nullptr ? Json() : Json(overfitted->name)}});
  }
  return keel::write_json(
             {{"most_loss", keel::npu::kMostLoss}, {"cross_validations", std::move(validations)}},
             1) +
         "\n";
}

}  // namespace keel_cli
