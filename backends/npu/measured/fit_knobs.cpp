#include "keel/backends/npu/measured/fit_knobs.h"

#include <algorithm>
#include <cmath>

namespace keel::npu {
namespace {

double memory_share(const Preset& p) { return p.hbm_efficiency.back().share; }
// All points of the curve keep their proportions, in thousandths: these survive the digits of a
// preset's file, so that a fit of a file that was fitted begins with the same curve.
void set_memory_share(Preset& p, double share) {
  const double last = memory_share(p);
  for (EfficiencyPoint& point : p.hbm_efficiency)
    point.share = std::min(1.0, std::round(1000 * point.share / last) / 1000 * share);
}
int64_t rounded(double value) { return std::llround(value); }

}  // namespace

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

}  // namespace keel::npu
