// Pipeline: what the pricing of vector and of cube work share: the times of a pipeline on one core,
// and how they become a TaskPrice. Internal to this folder.
#ifndef KEEL_BACKENDS_NPU_COST_PIPELINE_H
#define KEEL_BACKENDS_NPU_COST_PIPELINE_H

#include <array>

#include "keel/backends/npu/cost/price.h"

namespace keel::npu {

struct PipelineTimes {
  double pipeline_ns = 0;
  std::array<double, kUnits> busy_ns{};  // by Unit
  double& of(Unit unit) { return busy_ns[static_cast<size_t>(unit)]; }
};

// Returns the time in whole ns. Throws Error that names the preset where one task would take more
// than 10^15 ns, which is eleven days: sums of such times would not fit in 64 bits.
int64_t task_ns(const Preset& preset, double ns);

// Adds the overhead and turns times into cycles; leaves bytes, flops and roofs to the caller.
TaskPrice assemble(const Preset& preset, const PipelineTimes& times, int64_t block_dim);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_COST_PIPELINE_H
