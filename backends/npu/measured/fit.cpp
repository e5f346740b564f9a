#include "keel/backends/npu/measured/fit.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "keel/backends/npu/measured/compare.h"
#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/core/base/error.h"
#include "keel/core/base/json.h"

namespace keel::npu {
namespace {

// A parameter as the fit sees it. `first` is where the search begins that has 0 to begin with.
struct Knob {
  const char* name;
  double least, most, first;
  double (*get)(const Preset&);
  void (*set)(Preset&, double);
};

double memory_share(const Preset& p) { return p.hbm_efficiency.back().share; }
// All points of the curve keep their proportions.
void set_memory_share(Preset& p, double share) {
  const double factor = share / memory_share(p);
  for (EfficiencyPoint& point : p.hbm_efficiency) point.share = std::min(1.0, point.share * factor);
}
int64_t rounded(double value) { return std::llround(value); }

std::span<const Knob> knobs() {
  static const Knob list[] = {
      {"task_per_block_ns", 1, 5000, 50,
       [](const Preset& p) { return static_cast<double>(p.task_per_block_ns); },
       [](Preset& p, double v) { p.task_per_block_ns = rounded(v); }},
      {"kernel_prologue_ns", 0, 20000, 500,
       [](const Preset& p) { return static_cast<double>(p.kernel_prologue_ns); },
       [](Preset& p, double v) { p.kernel_prologue_ns = rounded(v); }},
      {"gm_ub_gb_per_s", 1, 500, 50, [](const Preset& p) { return p.gm_ub_gb_per_s; },
       [](Preset& p, double v) { p.gm_ub_gb_per_s = v; }},
      {"gm_ub_row_ns", 0, 100, 2, [](const Preset& p) { return p.gm_ub_row_ns; },
       [](Preset& p, double v) { p.gm_ub_row_ns = v; }},
      {"vector_share", 0.02, 1, 1, [](const Preset& p) { return p.vector_share; },
       [](Preset& p, double v) { p.vector_share = v; }},
      {"hbm_efficiency", 0.2, 1, 1, memory_share, set_memory_share},
      {"l2_mib", 1, 1024, 32, [](const Preset& p) { return static_cast<double>(p.l2_bytes >> 20); },
       [](Preset& p, double v) { p.l2_bytes = rounded(v) << 20; }},
      {"l2_gb_per_s", 1, 20000, 1000, [](const Preset& p) { return p.l2_gb_per_s; },
       [](Preset& p, double v) { p.l2_gb_per_s = v; }},
      {"gm_l1_gb_per_s", 1, 1000, 100, [](const Preset& p) { return p.gm_l1_gb_per_s; },
       [](Preset& p, double v) { p.gm_l1_gb_per_s = v; }},
      {"gm_l1_issue_ns", 1, 5000, 100, [](const Preset& p) { return p.gm_l1_issue_ns; },
       [](Preset& p, double v) { p.gm_l1_issue_ns = v; }}};
  return list;
}

struct FitRow {
  MeasuredClass kind;
  NodeWork work;
  double us;
  bool one_sided;
  std::optional<int64_t> blocks;  // as measured, so that parameters do not make up for the choice
  CubeTiling tiling = {};         // of a product: the cheapest for the preset of the round
};

class Fitter {
 public:
  Fitter(const MeasuredTable& table, const Preset& start) : best_(start) {
    size_t mapped = 0;
    for (const MeasuredRow& row : table.rows) {
      const MappedRow op = map_row(row);
      if (!op.op) continue;
      NodeWork work = op.op->work(start);
      const bool one_sided = is_bad_kernel(row.us, price_measured(start, work, std::nullopt));
      auto& rows = ++mapped % kHeldOut == 0 ? held_out_ : rows_;
      rows.push_back({op.op->kind(), std::move(work), row.us, one_sided, row.block_dim});
    }
    if (static_cast<int64_t>(rows_.size()) < kLeastFitRows) {
      throw Error({.op = "fit",
                   .expected = fmt::format("at least {} rows that are mapped, besides those held "
                                           "out",
                                           kLeastFitRows),
                   .got = std::to_string(rows_.size())});
    }
  }

  Fit run() {
    Fit fit;
    const Preset start = best_;
    choose_tilings(rows_);
    choose_tilings(held_out_);
    fit.before = quality(rows_);
    fit.held_out_before = quality(held_out_);
    find_used();
    for (double step : {1.5, 1.25, 1.12, 1.06, 1.03}) search(step);
    fit.after = quality(rows_);
    choose_tilings(held_out_);
    fit.held_out_after = quality(held_out_);
    for (const Knob& knob : used_) fit.parameters.push_back(describe(knob, start));
    fit.preset = best_;
    return fit;
  }

 private:
  static double modelled_us(const Preset& preset, FitRow& row) {
    set_residency(preset, Residency::kWarm, row.work);
    const int64_t ns = row.work.cube ? price_cube(preset, *row.work.cube, row.tiling).total_ns
                                     : price_measured(preset, row.work, row.blocks).total_ns;
    return static_cast<double>(ns) * 1e-3;
  }

  void choose_tilings(std::vector<FitRow>& rows) const {
    for (FitRow& row : rows) {
      if (!row.work.cube) continue;
      set_residency(best_, Residency::kWarm, row.work);
      const int64_t most = std::min(best_.cube_cores, row.blocks.value_or(best_.cube_cores));
      row.tiling = choose_cube(best_, *row.work.cube, most).tiling;
    }
  }

  static double log_ratio(const Preset& preset, FitRow& row) {
    return std::log(std::max(1e-6, modelled_us(preset, row) / row.us));
  }

  static double distance(const FitRow& row, double log_ratio) {
    const double off = row.one_sided ? std::max(0.0, log_ratio) : std::abs(log_ratio);
    return std::min(kFarthest, off);
  }

  double criterion(const Preset& preset) {
    double sum = 0;
    for (FitRow& row : rows_) sum += distance(row, log_ratio(preset, row));
    return sum / static_cast<double>(rows_.size());
  }

  FitQuality quality(std::vector<FitRow>& rows) const {
    FitQuality q;
    q.rows = static_cast<int64_t>(rows.size());
    if (rows.empty()) return q;
    for (FitRow& row : rows) {
      const double off = log_ratio(best_, row);
      const bool below = off<std::log(kLeastRatio), above = off> std::log(kMostRatio);
      if (!above && (row.one_sided || !below)) q.met += 1;
      q.distance += distance(row, off);
    }
    q.met /= static_cast<double>(rows.size());
    q.distance /= static_cast<double>(rows.size());
    return q;
  }

  // Rows, by class, that a tenth more or less of the parameter moves.
  std::map<std::string, int64_t> rests_on(const Knob& knob) {
    std::map<std::string, int64_t> rows;
    Preset less = best_, more = best_;
    const double value = knob.get(best_) > 0 ? knob.get(best_) : knob.first;
    knob.set(less, std::max(knob.least, value / 1.1));
    knob.set(more, std::min(knob.most, value * 1.1));
    for (FitRow& row : rows_) {
      if (std::abs(log_ratio(more, row) - log_ratio(less, row)) > 0.01) ++rows[name_of(row.kind)];
    }
    return rows;
  }

  void find_used() {
    for (const Knob& knob : knobs()) {
      if (!rests_on(knob).empty()) used_.push_back(knob);
    }
  }

  // One parameter after the other, as long as any step is a gain.
  void search(double step) {
    constexpr int kMostRounds = 12;
    constexpr double kLeastGain = 1e-5;
    choose_tilings(rows_);
    double now = criterion(best_);
    for (int round = 0; round < kMostRounds; ++round) {
      const double before = now;
      for (const Knob& knob : used_) {
        for (const double factor : {step, 1 / step}) {
          while (true) {
            const double value = knob.get(best_) > 0 ? knob.get(best_) * factor : knob.first;
            Preset trial = best_;
            knob.set(trial, std::clamp(value, knob.least, knob.most));
            if (knob.get(trial) == knob.get(best_)) break;
            const double then = criterion(trial);
            if (then > now - kLeastGain) break;
            best_ = std::move(trial);
            now = then;
          }
        }
      }
      if (before - now < kLeastGain) break;
    }
  }

  // The value farthest in that direction whose criterion is still within 1 % of the best.
  double edge(const Knob& knob, double factor, double best) {
    double edge = knob.get(best_);
    for (int i = 0; i < 24; ++i) {
      const double value = std::clamp(edge * factor, knob.least, knob.most);
      Preset trial = best_;
      knob.set(trial, value);
      if (value == edge || criterion(trial) > 1.01 * best) break;
      edge = value;
    }
    return edge;
  }

  FittedParameter describe(const Knob& knob, const Preset& start) {
    FittedParameter p;
    p.name = knob.name;
    p.before = knob.get(start);
    p.after = knob.get(best_);
    p.by_class = rests_on(knob);
    for (const auto& [name, rows] : p.by_class) p.rows += rows;
    const double best = criterion(best_);
    p.low = edge(knob, 1 / 1.05, best);
    p.high = edge(knob, 1.05, best);
    return p;
  }

  Preset best_;
  std::vector<FitRow> rows_, held_out_;
  std::vector<Knob> used_;
};

Json value_of(const Preset& preset, const std::string& name, double value) {
  if (name != "hbm_efficiency") {
    if (name.ends_with("_ns") && name.starts_with("gm_")) return std::round(value * 1e3) / 1e3;
    if (name.ends_with("_ns") || name == "l2_mib") return static_cast<int64_t>(std::llround(value));
    return std::round(value * 1e4) / 1e4;
  }
  Json points = Json::array();
  for (const EfficiencyPoint& point : preset.hbm_efficiency)
    points.push_back({point.bytes, std::round(point.share * 1e4) / 1e4});
  return points;
}

}  // namespace

Fit fit_preset(const MeasuredTable& table, const Preset& start) {
  return Fitter(table, start).run();
}

std::string fitted_preset_text(const Fit& fit, const std::string& table_name) {
  Json parameters = Json::object();
  for (const PresetParameter& p : fit.preset.parameters) {
    parameters[p.name] = {{"value", parse_json(p.value, "preset")}, {"source", p.source}};
  }
  for (const FittedParameter& p : fit.parameters) {
    std::string classes;
    for (const auto& [name, rows] : p.by_class)
      classes += (classes.empty() ? "" : ", ") + std::to_string(rows) + " " + name;
    parameters[p.name] = {
        {"value", value_of(fit.preset, p.name, p.after)},
        {"source", fmt::format("fitted on {} rows of {} ({}); {:.4g} to {:.4g} are as good", p.rows,
                               table_name, classes, p.low, p.high)}};
  }
  const Json document = {{"description", fit.preset.description + ", fitted"},
                         {"series", fit.preset.series},
                         {"parameters", std::move(parameters)}};
  return write_json(document, 2) + "\n";
}

}  // namespace keel::npu
