#include "keel/backends/npu/measured/compare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "keel/backends/npu/measured/held_out.h"
#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/core/base/error.h"

namespace keel::npu {
namespace {

constexpr size_t kWorst = 5;

double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// How far off a row is, whichever way; a bad kernel only where the model is slower.
double distance(const ComparedRow& row) {
  const double off = std::log(std::max(1e-9, row.ratio()));
  return row.one_sided ? std::max(0.0, off) : std::abs(off);
}

void add_to(SumPart& part, const ComparedRow& compared) {
  const auto times = static_cast<double>(compared.row->count);
  part.rows += compared.row->count;
  part.modelled_us += times * compared.modelled_us();
  part.measured_us += compared.row->total_us;
  if (!compared.one_sided) return;
  part.one_sided += compared.row->count;
  part.one_sided_modelled_us += times * compared.modelled_us();
  part.one_sided_measured_us += compared.row->total_us;
}

void add_unmapped(GroupSum& sum, const MeasuredRow& row) {
  sum.rows += row.count;
  sum.unmapped += row.count;
  sum.unmapped_us += row.total_us;
  SumPart& type = sum.unmapped_types[row.type];
  type.rows += row.count;
  type.measured_us += row.total_us;
}

// Keeps those of a sum's rows that most time is missing of.
void keep_longest(const std::vector<ComparedRow>& rows, GroupSum& sum) {
  const auto missing_us = [&](size_t i) {
    const MeasuredRow& row = *rows[i].row;
    return row.total_us - static_cast<double>(row.count) * rows[i].modelled_us();
  };
  std::erase_if(sum.missing, [&](size_t i) { return missing_us(i) <= 0; });
  std::stable_sort(sum.missing.begin(), sum.missing.end(),
                   [&](size_t a, size_t b) { return missing_us(a) > missing_us(b); });
  sum.missing.resize(std::min(sum.missing.size(), kWorst));
}

std::string group_of(const MeasuredRow& row) {
  if (row.device.empty()) return row.group;
  return row.group.empty() ? row.device : row.device + ", " + row.group;
}

std::vector<ClassSummary> summaries(const std::vector<ComparedRow>& rows,
                                    const std::function<bool(const ComparedRow&)>& belongs) {
  std::vector<ClassSummary> list;
  for (size_t i = 0; i < kMeasuredClasses; ++i) {
    const auto kind = static_cast<MeasuredClass>(i);
    ClassSummary summary = summarise(name_of(kind), rows, [&](const ComparedRow& row) {
      return row.kind == kind && belongs(row);
    });
    if (summary.rows > 0) list.push_back(std::move(summary));
  }
  list.push_back(summarise("all", rows, belongs));
  return list;
}

ComparedRow compare_row(const MeasuredRow& row, const MeasuredOp& op, const Preset& preset) {
  ComparedRow compared;
  compared.row = &row;
  compared.kind = op.kind();
  compared.preset = preset.name;
  NodeWork work = op.work(preset);
  const std::optional<int64_t> blocks = op.fixed_blocks(preset);
  compared.cold = price_measured(preset, work, blocks);
  set_residency(preset, Residency::kWarm, work);
  compared.own = price_measured(preset, work, blocks);
  if (row.block_dim) compared.as_blocked = price_measured(preset, work, row.block_dim);
  compared.one_sided = is_bad_kernel(row.us, compared.cold);
  compared.held_out = is_held_out(row);
  return compared;
}

}  // namespace

bool is_bad_kernel(double us, const TaskPrice& cold) {
  const auto roof = static_cast<double>(std::max(cold.compute_roof_ns, cold.memory_roof_ns));
  return us > kBadKernelUs && roof * 1e-3 < kBadKernelShare * us;
}

TaskPrice price_measured(const Preset& preset, const NodeWork& work,
                         const std::optional<int64_t>& blocks) {
  const int64_t cores = work.cube ? preset.cube_cores : preset.vector_cores;
  const int64_t most = blocks.value_or(cores);
  const bool forced = blocks.has_value();
  return work.cube ? choose_cube(preset, *work.cube, most, forced).price
                   : choose_vector(preset, work.splits, most, forced).price;
}

ClassSummary summarise(const std::string& name, const std::vector<ComparedRow>& rows,
                       const std::function<bool(const ComparedRow&)>& belongs) {
  ClassSummary summary;
  summary.name = name;
  std::vector<double> ratios, blocked;
  std::vector<size_t> order;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ComparedRow& row = rows[i];
    if (!belongs(row)) continue;
    ++summary.rows;
    order.push_back(i);
    if (row.met()) ++summary.met;
    if (row.above()) ++summary.above;
    if (row.held_out) {
      ++summary.held_out;
      if (row.met()) ++summary.held_out_met;
    }
    if (row.one_sided) {
      ++summary.one_sided;
      continue;
    }
    if (row.met()) ++summary.met_two_sided;
    ratios.push_back(row.ratio());
    if (!row.as_blocked) continue;
    blocked.push_back(static_cast<double>(row.as_blocked->total_ns) * 1e-3 / row.row->us);
  }
  std::sort(ratios.begin(), ratios.end());
  std::sort(blocked.begin(), blocked.end());
  summary.low = quantile(ratios, 0.25);
  summary.median = quantile(ratios, 0.5);
  summary.high = quantile(ratios, 0.75);
  summary.blocked_median = quantile(blocked, 0.5);
  summary.blocked_rows = static_cast<int64_t>(blocked.size());
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return distance(rows[a]) > distance(rows[b]); });
  order.resize(std::min(order.size(), kWorst));
  summary.worst = std::move(order);
  return summary;
}

Comparison compare(const MeasuredTable& table, const PresetOfDevice& preset_of) {
  Comparison result;
  std::map<std::string, std::shared_ptr<const Preset>> presets;
  for (const MeasuredRow& row : table.rows) {
    const MappedRow mapped = map_row(row);
    std::string why_not = mapped.why_not;
    std::optional<ComparedRow> compared;
    if (mapped.op) {
      auto& preset = presets[row.device];
      if (preset == nullptr) preset = preset_of(row.device);
      // A row whose work no number holds says nothing of the others.
      try {
        compared = compare_row(row, *mapped.op, *preset);
      } catch (const Error& error) {
        why_not = error.what();
      }
    }
    GroupSum& sum = result.sums[group_of(row)];
    if (!compared) {
      add_unmapped(sum, row);
      ++result.unmapped[row.type];
      result.why_not.emplace(row.type, why_not);
      continue;
    }
    add_to(sum, *compared);
    add_to(sum.classes[name_of(compared->kind)], *compared);
    sum.missing.push_back(result.rows.size());
    result.rows.push_back(std::move(*compared));
  }
  for (auto& entry : result.sums) keep_longest(result.rows, entry.second);
  for (const std::string& net : table.nets_without_rows) result.sums[net];
  result.classes = summaries(result.rows, [](const ComparedRow&) { return true; });
  for (const auto& entry : presets) {
    const std::string& device = entry.first;
    result.by_device[device] =
        summaries(result.rows, [&](const ComparedRow& row) { return row.row->device == device; });
  }
  return result;
}

std::string reason_of(const ComparedRow& row) {
  const TaskPrice& price = row.own;
  size_t longest = 0;
  for (size_t u = 1; u < kUnits; ++u) {
    if (price.busy_cycles[u] > price.busy_cycles[longest]) longest = u;
  }
  const double roof =
      static_cast<double>(std::max(row.cold.compute_roof_ns, row.cold.memory_roof_ns)) * 1e-3;
  std::string text = 2 * price.overhead_ns > price.total_ns
                         ? "starting it is most of its price"
                         : fmt::format("{} is busy longest", name_of(static_cast<Unit>(longest)));
  text += fmt::format("; measured at {:.0f} % of its roof", 100 * roof / row.row->us);
  if (row.row->block_dim && *row.row->block_dim != price.block_dim)
    text += fmt::format("; {} blocks measured, {} modelled", *row.row->block_dim, price.block_dim);
  if (row.one_sided) text += "; a bad kernel, so that the model must only be no slower";
  return text;
}

}  // namespace keel::npu
