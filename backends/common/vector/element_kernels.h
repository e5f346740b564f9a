// The vector library's kernels of element-wise work and reductions, for the entries of backends: tile
// programs and the reduction kernel with the library's instructions. `saturate_f16`: f16 results
// stop at +-65504 and raise the float status. Any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_ELEMENT_KERNELS_H
#define KEEL_BACKENDS_COMMON_VECTOR_ELEMENT_KERNELS_H

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/tile_program.h"

namespace keel::vector {

// find_instruction, for what takes a lookup.
KEEL_API InstructionLookup instruction_lookup(bool saturate_f16 = false);

// Returns whether a result of the node, or a value on the way to one, is f16.
KEEL_API bool computes_f16(const Node& node);

// Element-wise nodes, and clusters of them. REQUIRES of plans, here and below, that it is
// supported.
KEEL_API Support supports_elements(const AnchoredNode& anchored);
KEEL_API KernelPlan plan_elements(const AnchoredNode& anchored, bool saturate_f16 = false);

// sum, prod, max and min, by themselves or fused to element-wise work.
KEEL_API Support supports_reduction(const AnchoredNode& anchored);
KEEL_API KernelPlan plan_reduction(const AnchoredNode& anchored, bool saturate_f16 = false);

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_ELEMENT_KERNELS_H
