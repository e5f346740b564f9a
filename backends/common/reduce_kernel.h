// The reduction kernel: sum, prod, max and min over any axes. Its numeric plan (how the reduced
// elements are cut into chunks and merged) follows from the shape alone; blocks only decide who
// computes which chunks.
#ifndef KEEL_BACKENDS_COMMON_REDUCE_KERNEL_H
#define KEEL_BACKENDS_COMMON_REDUCE_KERNEL_H

#include <memory>

#include "keel/backends/common/kernel.h"
#include "keel/backends/common/reduce_call.h"

namespace keel {

// Elements of one output row that are reduced in one go; longer reductions are cut into chunks of
// at least as many.
inline constexpr int64_t kReduceChunk = 32768;

// The kernel of a sum, prod, max or min node; arguments: input, output, workspace. `most_blocks`
// caps the blocks of the first phase.
KernelPlan plan_reduce(const Node& node, const ReduceInstructions& instructions, int most_blocks);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_REDUCE_KERNEL_H
