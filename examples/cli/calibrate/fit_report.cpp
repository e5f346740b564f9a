// The reports of fits and of cross-validations, as text.
#include <fmt/core.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>

#include "cli/calibrate/report.h"

namespace keel_cli {

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

std::string cross_validation_text(const std::vector<keel::npu::CrossValidation>& list) {
  std::string text;
  for (const keel::npu::CrossValidation& v : list) {
    text += fmt::format(
        "fitted on {}, predicting {}: met {:.1f} % of {} rows; fitted on them {:.1f} %: loses "
        "{:.1f} points\n",
        v.fitted_on, v.predicted, 100 * v.met, v.rows, 100 * v.met_by_own, 100 * v.loss());
    text += fmt::format("  {:<20} {:>10} {:>10}\n", "parameter", "predicted", "own");
    for (const auto& p : v.parameters)
      text += fmt::format("  {:<20} {:>10.4g} {:>10.4g}\n", p.name, p.other, p.own);
  }
  return text;
}

}  // namespace keel_cli
