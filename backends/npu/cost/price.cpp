#include "keel/backends/npu/cost/price.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "keel/backends/npu/cost/pipeline.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"

namespace keel::npu {

const char* name_of(Unit unit) noexcept {
  static constexpr const char* kNames[] = {"CUBE", "VECTOR", "MTE1", "MTE2", "MTE3", "SCALAR"};
  return kNames[static_cast<size_t>(unit)];
}

double hbm_share(const Preset& preset, double bytes) {
  const auto& points = preset.hbm_efficiency;
  // The exponent of two plus the mantissa: the logarithm but for a bend in each octave, and exact
  // on every machine.
  const auto octave = [](double x) {
    int exponent = 0;
    const double mantissa = std::frexp(x, &exponent);
    return exponent + 2 * mantissa;
  };
  if (bytes <= points.front().bytes) {
    return bytes <= 0 ? 0 : points.front().share * (bytes / points.front().bytes);
  }
  for (size_t i = 1; i < points.size(); ++i) {
    if (bytes > points[i].bytes) continue;
    const double low = octave(points[i - 1].bytes);
    const double t = (octave(bytes) - low) / (octave(points[i].bytes) - low);
    return points[i - 1].share + t * (points[i].share - points[i - 1].share);
  }
  return points.back().share;
}

int64_t task_ns(const Preset& preset, double ns) {
  constexpr double kMostNs = 1e15;
  if (ns <= kMostNs) return static_cast<int64_t>(std::llround(ns));
  throw Error(
      {.op = "preset " + preset.name,
       .expected = fmt::format("rates and shares by which a task takes at most {:.0f} ns", kMostNs),
       .got = fmt::format("one of {:.3g} ns", ns),
       .fix = "raise the preset's rates, or use smaller dimensions"});
}

TaskPrice assemble(const Preset& preset, const PipelineTimes& times, int64_t block_dim) {
  TaskPrice price;
  price.block_dim = block_dim;
  price.overhead_ns =
      preset.task_base_ns + preset.task_per_block_ns * block_dim + preset.kernel_prologue_ns;
  price.pipeline_ns = task_ns(preset, times.pipeline_ns);
  price.total_ns = price.overhead_ns + price.pipeline_ns;
  price.cycles = static_cast<int64_t>(std::ceil(times.pipeline_ns * preset.clock_ghz()));
  for (size_t u = 0; u < kUnits; ++u) {
    const double busy = std::min(times.busy_ns[u], times.pipeline_ns) * preset.clock_ghz();
    price.busy_cycles[u] = std::min(price.cycles, static_cast<int64_t>(std::llround(busy)));
  }
  return price;
}

TaskPrice price_ai_cpu(const Preset& preset, int64_t bytes_in, int64_t bytes_out) {
  TaskPrice price;
  price.bytes_in = bytes_in;
  price.bytes_out = bytes_out;
  const auto bytes = static_cast<double>(checked_add(bytes_in, bytes_out));
  // The cores have no part in it.
  price.overhead_ns = preset.ai_cpu_task_ns + task_ns(preset, bytes / preset.ai_cpu_gb_per_s);
  price.total_ns = price.overhead_ns;
  return price;
}

int64_t price_transfer(const Preset& preset, int64_t bytes) {
  return preset.pcie_latency_ns +
         task_ns(preset, static_cast<double>(bytes) / preset.pcie_gb_per_s);
}

int64_t host_driven_ns(const Preset& preset, int64_t step_ns, int64_t tasks) {
  return checked_add(step_ns, checked_mul(tasks, preset.launch_sync_ns));
}

}  // namespace keel::npu
