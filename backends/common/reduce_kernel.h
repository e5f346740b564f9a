// The reduction kernel: sum, prod, max and min over any axes, by itself or with what is fused to
// it. Its numeric plan (how the reduced elements are cut into chunks and merged) follows from the
// shape alone; blocks only decide who computes which chunks. A prologue is computed piece by piece
// into scratch that stays in the cache, from where the reduction takes what it would take from
// memory; an epilogue is computed on the merged results, rounded to the reduction's dtype.
#ifndef KEEL_BACKENDS_COMMON_REDUCE_KERNEL_H
#define KEEL_BACKENDS_COMMON_REDUCE_KERNEL_H

#include <cstdint>
#include <memory>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/reduce_call.h"
#include "keel/backends/common/tile_program.h"

namespace keel {

// Holds what a backend computes reductions with.
struct ReduceUnit {
  ReduceInstructions instructions;
  InstructionLookup lookup = nullptr;  // of what is fused to it; called while the plan is made
  // Stops infinite f16 results before an epilogue reads them and returns the status bits of that;
  // null: they stay infinite.
  uint32_t (*saturate)(uint16_t* values, int64_t count) = nullptr;
  bool float_status = false;  // the plan asks for the status word
};

// Accumulators of a reduction, added up, as results of dtype `out`.
void round_accumulators(const void* accumulators, DType accumulator, void* to, DType out,
                        int64_t count);

// Says whether the lookup has an instruction for each op of a reduction's prologue and epilogue,
// and whether the reduction keeps as many of at most `most_blocks` blocks busy as a prologue would
// whose instructions take one pass each, where `work_of_a_block` elements times passes are worth
// one.
Support supports_reduce(const AnchoredNode& node, const InstructionLookup& lookup,
                        int64_t work_of_a_block, int most_blocks);

// Returns the kernel of a sum, prod, max or min, by itself or fused; arguments: inputs, outputs,
// workspace, status. `most_blocks` caps the blocks of a phase. REQUIRES supports_reduce.
KernelPlan plan_reduce(const AnchoredNode& node, const ReduceUnit& unit, int most_blocks);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_REDUCE_KERNEL_H
