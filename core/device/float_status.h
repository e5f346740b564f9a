// The float status: what the arithmetic of a step raised, as bits. Each step begins with none; a
// launch reports each step's and all of them together (LaunchReport, LoopReport). Plain values.
#ifndef KEEL_CORE_DEVICE_FLOAT_STATUS_H
#define KEEL_CORE_DEVICE_FLOAT_STATUS_H

#include <cstdint>
#include <string>

#include "keel/core/base/export.h"

namespace keel {

// An f16 result beyond +-65504 was stopped there.
inline constexpr uint32_t kFloatStatusF16Overflow = 1;
// A number that the step fetches is infinite or NaN.
inline constexpr uint32_t kFloatStatusNotFinite = 2;

// Describes the status for people: "" where nothing is raised.
KEEL_API std::string describe_float_status(uint32_t status);

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_FLOAT_STATUS_H
