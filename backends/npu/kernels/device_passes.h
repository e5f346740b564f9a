// Passes of vector instructions as the device takes them. The vector library counts its own, by
// which the host cuts work into blocks; the device's unit has instructions for some of what the
// host computes in many steps, and needs more steps for others. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_DEVICE_PASSES_H
#define KEEL_BACKENDS_NPU_KERNELS_DEVICE_PASSES_H

#include <cstdint>
#include <string_view>

#include "keel/core/base/export.h"

namespace keel::npu {

// Returns how often an instruction goes through the lanes for each element; 0 where there is no
// such instruction.
KEEL_API int64_t device_passes(std::string_view op);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_DEVICE_PASSES_H
