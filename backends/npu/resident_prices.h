// Prices of a program's tasks by what L2 holds when they begin: the blocks and tiles are those that
// the scheduler chose with nothing in L2. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_RESIDENT_PRICES_H
#define KEEL_BACKENDS_NPU_RESIDENT_PRICES_H

#include "keel/backends/common/task_list.h"
#include "keel/backends/npu/npu_library.h"

namespace keel::npu {

// Returns the launch's price with those shares of its bytes in L2, never above its price without.
TaskPrice resident_price(const Preset& preset, const Launch& launch, const Residency& residency);

// Gives the tasks of a list and the decisions behind them their prices within a step that follows
// its like.
void price_by_residency(TaskList& list, NpuLibrary::Launches& launches, const Preset& preset);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_RESIDENT_PRICES_H
