#include "keel/backends/npu/measured/fit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "keel/backends/npu/measured/compare.h"
#include "keel/backends/npu/measured/held_out.h"
#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/core/base/error.h"

namespace keel::npu {
namespace {

// A parameter as the fit sees it. `first` is where the search begins that has 0 to begin with.
struct Knob {
  const char* name;
  double least, most, first;
  double (*get)(const Preset&);
  void (*set)(Preset&, double);
  bool cuts = false;  // how products are cut follows from it
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
      {"vector_share", 0.02, 1, 0.7, [](const Preset& p) { return p.vector_share; },
       [](Preset& p, double v) { p.vector_share = v; }},
      {"hbm_efficiency", 0.2, 1, 0.8, memory_share, set_memory_share},
      {"l2_mib", 1, 1024, 32, [](const Preset& p) { return static_cast<double>(p.l2_bytes >> 20); },
       [](Preset& p, double v) { p.l2_bytes = rounded(v) << 20; }},
      {"l2_gb_per_s", 1, 20000, 1000, [](const Preset& p) { return p.l2_gb_per_s; },
       [](Preset& p, double v) { p.l2_gb_per_s = v; }},
      {"gm_l1_gb_per_s", 1, 1000, 100, [](const Preset& p) { return p.gm_l1_gb_per_s; },
       [](Preset& p, double v) { p.gm_l1_gb_per_s = v; }, true},
      {"gm_l1_issue_ns", 1, 5000, 100, [](const Preset& p) { return p.gm_l1_issue_ns; },
       [](Preset& p, double v) { p.gm_l1_issue_ns = v; }, true}};
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
    for (const MeasuredRow& row : table.rows) {
      const MappedRow op = map_row(row);
      if (!op.op) continue;
      NodeWork work = op.op->work(start);
      const bool one_sided = is_bad_kernel(row.us, price_measured(start, work, std::nullopt));
      auto& rows = is_held_out(row) ? held_out_ : rows_;
      rows.push_back(
          {op.op->kind(), std::move(work), row.us, one_sided, op.op->fixed_blocks(start)});
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
    forget_fits();
    search_all();
    if (drop_unused(start)) search_all();
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
    const double below = row.one_sided ? 0 : std::max(0.0, -log_ratio);
    return std::min(kFarthest, below + kWeightAbove * std::max(0.0, log_ratio));
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

  // Rows, by class, that so many times the parameter, or one part in so many, moves.
  std::map<std::string, int64_t> rests_on(const Knob& knob, double factor = 1.1) {
    std::map<std::string, int64_t> rows;
    Preset less = best_, more = best_;
    const double value = knob.get(best_) > 0 ? knob.get(best_) : knob.first;
    knob.set(less, std::max(knob.least, value / factor));
    knob.set(more, std::min(knob.most, value * factor));
    for (FitRow& row : rows_) {
      if (row.one_sided) continue;
      if (std::abs(log_ratio(more, row) - log_ratio(less, row)) > 0.01) ++rows[name_of(row.kind)];
    }
    return rows;
  }

  bool is_used(const Knob& knob, double factor) {
    int64_t rows = 0;
    for (const auto& [name, count] : rests_on(knob, factor)) rows += count;
    return rows >= kLeastRowsOfAParameter;
  }
  void find_used() {
    for (const Knob& knob : knobs()) {
      if (is_open(knob.name) && is_used(knob, 4)) used_.push_back(knob);
    }
  }
  // Puts back what went to where no rows tell its value. Returns whether there is any such
  // parameter.
  bool drop_unused(const Preset& start) {
    const size_t before = used_.size();
    std::erase_if(used_, [&](const Knob& knob) {
      if (is_used(knob, 1.1)) return false;
      knob.set(best_, knob.get(start));
      return true;
    });
    return used_.size() < before;
  }

  // Values that another fit found are no start: this fit would then rest on that one's rows, too.
  void forget_fits() {
    for (const Knob& knob : used_) {
      if (source_of(knob.name).starts_with("fitted")) knob.set(best_, knob.first);
    }
  }

  void search_all() {
    constexpr int kMostPasses = 6;
    scan();
    double before = 2 * kFarthest;
    for (int pass = 0; pass < kMostPasses; ++pass) {
      for (const double step : {1.5, 1.25, 1.12, 1.06, 1.03}) search(step);
      const double now = criterion(best_);
      if (before - now < kLeastGain) break;
      before = now;
    }
  }

  // Published values are not fitted.
  bool is_open(const std::string& name) const {
    const std::string source = source_of(name);
    return source.starts_with("assumed") || source.starts_with("fitted") ||
           source.ends_with("assumed to hold here");
  }
  std::string source_of(const std::string& name) const {
    for (const PresetParameter& p : best_.parameters) {
      if (p.name == name) return p.source;
    }
    return "";
  }

  // Finds where the search begins: each parameter by itself goes to the best of values far apart.
  void scan() {
    constexpr int kRounds = 3;
    constexpr int kDoublings = 5;  // either way
    for (int round = 0; round < kRounds; ++round) {
      for (const Knob& knob : used_) {
        const Preset from = best_;
        Preset best = best_;
        choose_tilings(rows_);
        double least = criterion(best_) - kLeastGain;
        for (int doublings = -kDoublings; doublings <= kDoublings; ++doublings) {
          const double value = (knob.get(from) > 0 ? knob.get(from) : knob.first);
          Preset trial = from;
          knob.set(trial, std::clamp(std::ldexp(value, doublings), knob.least, knob.most));
          if (knob.cuts) {
            best_ = trial;
            choose_tilings(rows_);
          }
          const double then = criterion(trial);
          if (then >= least) continue;
          least = then;
          best = std::move(trial);
        }
        best_ = std::move(best);
      }
    }
  }

  // One parameter after the other, as long as any step is a gain.
  void search(double step) {
    constexpr int kMostRounds = 12;
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

}  // namespace

Fit fit_preset(const MeasuredTable& table, const Preset& start) {
  return Fitter(table, start).run();
}

}  // namespace keel::npu
