// Saturation: f16 results that stop at +-65504 where they would be infinite, for devices that do
// so. Instructions have variants of their own (find_instruction); this is for what has none. Any
// thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_SATURATION_H
#define KEEL_BACKENDS_COMMON_VECTOR_SATURATION_H

#include <cstdint>

#include "keel/backends/common/kernel.h"

namespace keel::vector {

// Makes +-65504 of f16 values that are infinite; returns the status bits that tells.
KEEL_API uint32_t stop_at_largest(uint16_t* values, int64_t count);

// Returns the plan with a last phase that stops infinite f16 results at +-65504 and raises the
// float status: for kernels that have no saturating instruction of their own.
KEEL_API KernelPlan saturate_results(KernelPlan plan, const Node& node);

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_SATURATION_H
