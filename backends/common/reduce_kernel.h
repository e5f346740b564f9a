// The reduction kernel: sum, prod, max and min over any axes, by itself or with what is fused to
// it. Its numeric plan (how the reduced elements are cut into chunks and merged) follows from the
// shape alone; blocks only decide who computes which chunks. A prologue is computed piece by piece
// into scratch that stays in the cache, from where the reduction takes what it would take from
// memory; an epilogue is computed on the merged results, rounded to the reduction's dtype.
#ifndef KEEL_BACKENDS_COMMON_REDUCE_KERNEL_H
#define KEEL_BACKENDS_COMMON_REDUCE_KERNEL_H

#include <cstdint>
#include <memory>

#include "keel/backends/common/fused_reduction.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/reduce_call.h"
#include "keel/backends/common/tile_program.h"

namespace keel {

// Elements of one output row that are reduced in one go; longer reductions are cut into chunks of
// at least as many.
inline constexpr int64_t kReduceChunk = 32768;

// What a backend computes reductions with.
struct ReduceUnit {
  ReduceInstructions instructions;
  InstructionLookup lookup = nullptr;  // of what is fused to it; called while the plan is made
  // Stops infinite f16 results before an epilogue reads them and returns the status bits of that;
  // null: they stay infinite.
  uint32_t (*saturate)(uint16_t* values, int64_t count) = nullptr;
  bool float_status = false;  // the plan asks for the status word
};

// The kernel of a sum, prod, max or min node, or of one that is fused (see FusedReduction);
// arguments: inputs, outputs, workspace, status. `most_blocks` caps the blocks of a phase.
// REQUIRES supports_beside of what is fused.
KernelPlan plan_reduce(const Node& node, const ReduceUnit& unit, int most_blocks);

// The blocks of the first phase: follow from the reduction's shape.
int reduce_blocks(const Node& reduction, int most_blocks);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_REDUCE_KERNEL_H
