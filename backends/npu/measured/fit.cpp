#include "keel/backends/npu/measured/fit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "keel/backends/npu/measured/compare.h"
#include "keel/backends/npu/measured/fit_knobs.h"
#include "keel/backends/npu/measured/held_out.h"
#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/core/base/error.h"

namespace keel::npu {
namespace {

struct FitRow {
  MeasuredClass kind;
  NodeWork work;
  double us;
  bool one_sided;
  std::optional<int64_t> blocks;  // what its kernel always has; nothing where the model chooses
  CubeTiling tiling = {};         // of a product: the cheapest for the preset of the round
};

class Fitter {
 public:
  Fitter(const MeasuredTable& table, const Preset& start) : start_(start), best_(start) {
    for (const MeasuredRow& row : table.rows) {
      const MappedRow mapped = map_row(row);
      if (mapped.op) keep(row, *mapped.op);
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
    fit.before = quality(start_, rows_);
    fit.held_out_before = quality(start_, held_out_);
    fit.left_out = left_out_;
    search_from_all(fit.starts);
    fit.after = quality(best_, rows_);
    fit.held_out_after = quality(best_, held_out_);
    for (const Knob& knob : used_) fit.parameters.push_back(describe(knob));
    for (const Knob& knob : untold_)
      fit.untold.push_back({.name = knob.name, .before = knob.get(start_), .after = knob.first});
    fit.preset = best_;
    return fit;
  }

 private:
  struct Start {
    const char* name;
    double even, odd;  // times the first values of every other parameter, and of those between
  };
  // Neighbours among the parameters are those that take each other's part: what a block and what a
  // kernel costs, how large and how fast L2 is.
  static constexpr Start kStarts[] = {{"the first values", 1, 1},
                                      {"a quarter and four times of them, in turn", 0.25, 4},
                                      {"four times and a quarter of them, in turn", 4, 0.25}};

  // Leaves the best of all searches; of equals the first.
  void search_from_all(std::vector<FitStart>& told) {
    Preset best = start_;
    std::vector<Knob> used, untold;
    size_t kept = 0;
    for (const Start& start : kStarts) {
      search_from(start);
      choose_tilings(best_, rows_);
      told.push_back({.name = start.name, .criterion = criterion(best_)});
      if (told.size() > 1 && told.back().criterion > told[kept].criterion - kLeastGain) continue;
      kept = told.size() - 1;
      best = best_;
      used = used_;
      untold = untold_;
    }
    told[kept].kept = true;
    best_ = std::move(best);
    used_ = std::move(used);
    untold_ = std::move(untold);
  }

  void search_from(const Start& start) {
    open_all(start);
    choose_tilings(best_, rows_);
    keep_used(4);
    search_all();
    while (keep_used(1.1)) search_all();
  }

  // Leaves rows out whose work no number holds, as a comparison does.
  void keep(const MeasuredRow& row, const MeasuredOp& op) {
    try {
      NodeWork work = op.work(best_);
      const bool one_sided = is_bad_kernel(row.us, price_measured(best_, work, std::nullopt));
      auto& rows = is_held_out(row) ? held_out_ : rows_;
      rows.push_back({op.kind(), std::move(work), row.us, one_sided, op.fixed_blocks(best_)});
    } catch (const Error&) {
      ++left_out_;
    }
  }

  static double modelled_us(const Preset& preset, FitRow& row) {
    set_residency(preset, Residency::kWarm, row.work);
    const int64_t ns = row.work.cube ? price_cube(preset, *row.work.cube, row.tiling).total_ns
                                     : price_measured(preset, row.work, row.blocks).total_ns;
    return static_cast<double>(ns) * 1e-3;
  }

  static void choose_tilings(const Preset& preset, std::vector<FitRow>& rows) {
    for (FitRow& row : rows) {
      if (!row.work.cube) continue;
      set_residency(preset, Residency::kWarm, row.work);
      const int64_t most = std::min(preset.cube_cores, row.blocks.value_or(preset.cube_cores));
      row.tiling = choose_cube(preset, *row.work.cube, most, row.blocks.has_value()).tiling;
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

  static FitQuality quality(const Preset& preset, std::vector<FitRow>& rows) {
    choose_tilings(preset, rows);
    FitQuality q;
    q.rows = static_cast<int64_t>(rows.size());
    if (rows.empty()) return q;
    for (FitRow& row : rows) {
      const double off = log_ratio(preset, row);
      const bool below = off < std::log(kLeastRatio);
      const bool above = off > std::log(kMostRatio);
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

  // Everything that may be fitted begins where all fits begin: had it the value of another fit,
  // this one would rest on that one's rows, too.
  void open_all(const Start& start) {
    best_ = start_;
    used_.clear();
    untold_.clear();
    for (size_t i = 0; i < knobs().size(); ++i) {
      const Knob& knob = knobs()[i];
      if (!is_open(knob.name)) continue;
      used_.push_back(knob);
      const double value = knob.first * (i % 2 == 0 ? start.even : start.odd);
      knob.set(best_, std::clamp(value, knob.least, knob.most));
    }
  }

  // Leaves alone what enough rows tell where it is that many times more or less. What they do not
  // tell has its value of before the fit again, if that is not another fit's. Returns whether there
  // is any such parameter.
  bool keep_used(double factor) {
    std::vector<Knob> told;
    for (const Knob& knob : used_) {
      if (is_used(knob, factor))
        told.push_back(knob);
      else if (source_of(knob.name).starts_with("fitted"))
        untold_.push_back(knob);
    }
    const bool all = told.size() == used_.size();
    used_ = std::move(told);
    Preset kept = start_;
    for (const Knob& knob : used_) knob.set(kept, knob.get(best_));
    for (const Knob& knob : untold_) knob.set(kept, knob.first);
    best_ = std::move(kept);
    return !all;
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
    for (const PresetParameter& p : start_.parameters) {
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
        choose_tilings(best_, rows_);
        double least = criterion(best_) - kLeastGain;
        for (int doublings = -kDoublings; doublings <= kDoublings; ++doublings) {
          const double value = (knob.get(from) > 0 ? knob.get(from) : knob.first);
          Preset trial = from;
          knob.set(trial, std::clamp(std::ldexp(value, doublings), knob.least, knob.most));
          if (knob.cuts) {
            best_ = trial;
            choose_tilings(best_, rows_);
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
    choose_tilings(best_, rows_);
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

  FittedParameter describe(const Knob& knob) {
    FittedParameter p;
    p.name = knob.name;
    p.before = knob.get(start_);
    p.after = knob.get(best_);
    p.by_class = rests_on(knob);
    for (const auto& [name, rows] : p.by_class) p.rows += rows;
    const double best = criterion(best_);
    p.low = edge(knob, 1 / 1.05, best);
    p.high = edge(knob, 1.05, best);
    return p;
  }

  Preset start_, best_;
  std::vector<FitRow> rows_, held_out_;
  int64_t left_out_ = 0;
  std::vector<Knob> used_;    // those that are searched
  std::vector<Knob> untold_;  // those that another fit found and that no rows tell here
};

}  // namespace

Fit fit_preset(const MeasuredTable& table, const Preset& start) {
  return Fitter(table, start).run();
}

}  // namespace keel::npu
