// The sticky status of an NPU's arithmetic. On presets that saturate (fp16_overflow "saturate"), an
// f16 result beyond +-65504 becomes +-65504 and raises kFloatStatusF16Overflow, which stays until
// it is cleared; NaN stays NaN and raises nothing. Presets in inf_nan mode give infinities and
// raise nothing. What one step raised is in its row of the metrics, what a launch raised in its
// LaunchReport. Any thread; a bit is there once the
// launch that raised it was synchronised.
#ifndef KEEL_BACKENDS_NPU_DEVICE_FLOAT_STATUS_H
#define KEEL_BACKENDS_NPU_DEVICE_FLOAT_STATUS_H

#include <cstdint>
#include <string>

#include "keel/backends/common/float_status.h"
#include "keel/core/base/export.h"
#include "keel/core/device/device.h"

namespace keel::npu {

// Throws Error for a device that is not an NPU; so does the next.
KEEL_API uint32_t float_status(const Device& device);
KEEL_API void clear_float_status(const Device& device);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_DEVICE_FLOAT_STATUS_H
