// Prices and gains of one launch with shares of its bytes in L2: the blocks and tiles are those
// that the scheduler chose with nothing there. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_SCHEDULER_RESIDENT_PRICE_H
#define KEEL_BACKENDS_NPU_SCHEDULER_RESIDENT_PRICE_H

#include <cstdint>

#include "keel/backends/npu/scheduler/scheduler.h"

namespace keel::npu {

// Returns the launch's price with those shares of its bytes in L2: above its price without only
// where the preset has an L2 that is slower than memory.
TaskPrice resident_price(const Preset& preset, const Launch& launch, const Residency& residency);

// Returns by how many nanoseconds the launch's fix would make it faster, with the same shares in
// L2 of the bytes of what takes its place; 0 where there is no fix or it gains nothing.
int64_t gain_of(const Preset& preset, const Launch& launch, const Residency& residency);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_SCHEDULER_RESIDENT_PRICE_H
