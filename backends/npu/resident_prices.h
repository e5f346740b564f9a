// Prices of a program's tasks, and what their advice gains, by what L2 holds when they begin. Pure;
// any thread.
#ifndef KEEL_BACKENDS_NPU_RESIDENT_PRICES_H
#define KEEL_BACKENDS_NPU_RESIDENT_PRICES_H

#include "keel/backends/common/task_list.h"
#include "keel/backends/npu/npu_library.h"

namespace keel::npu {

// Gives the tasks of a list and the decisions behind them their prices and gains within a step that
// follows its like.
void price_by_residency(TaskList& list, NpuLibrary::Launches& launches, const Preset& preset);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_RESIDENT_PRICES_H
