// The kernel that tells a step whether launches raised the float status (ops/float_status.h).
// Stateless; any thread.
#ifndef KEEL_BACKENDS_COMMON_FLOAT_STATUS_KERNEL_H
#define KEEL_BACKENDS_COMMON_FLOAT_STATUS_KERNEL_H

#include <cstddef>

#include "keel/backends/common/kernel.h"

namespace keel {

// The inputs are so many status words, the output a bool: whether one of them is not 0.
KernelPlan plan_status_read(size_t words);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_FLOAT_STATUS_KERNEL_H
