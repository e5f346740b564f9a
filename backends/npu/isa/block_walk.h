// The walk over a rectangle of C that register tiles multiply: columns in blocks, k in panels, rows
// in blocks, tiles. Internal to this folder; any thread.
#ifndef KEEL_BACKENDS_NPU_ISA_BLOCK_WALK_H
#define KEEL_BACKENDS_NPU_ISA_BLOCK_WALK_H

#include <cstddef>

#include "keel/backends/npu/isa/cube.h"
#include "keel/backends/npu/isa/cube_kernels.h"
#include "keel/core/base/function_ref.h"

namespace keel::npu {

// Rows of A packed at a time: with their sums they stay in L2.
inline constexpr size_t kRowBlock = 64;
// Columns of B packed at a time.
inline constexpr size_t kColumnBlock = 1024;

constexpr size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

// kRowBlock in whole register tiles.
size_t row_block(const CubeKernels& kernels);
// kColumnBlock and what is missing to whole register tiles.
size_t column_block(const CubeKernels& kernels);
// Counts the panels that a part of k is cut into.
size_t panels_of_part(const CubePlan& plan);
// Says whether blocks of rows are finished one after the other; else each is added to panel by
// panel.
bool one_panel(const CubePlan& plan);

// B as pack_b wants it, but for what is to be packed.
PackCall right_operand(const CubePlan& plan, const void* b, size_t stride);
// Where in a packed copy the panels of column j begin, for the panel of k at k0: the panels of k
// follow each other, in each those of columns.
size_t packed_at(const CubePlan& plan, size_t k0, size_t j);

// Bytes of scratch for a rectangle of at most rows x cols.
size_t walk_scratch_bytes(const CubePlan& plan, size_t rows, size_t cols);

// Each piece of the rectangle goes to args.c; `finished`, if there is one, is called when it is
// there.
using PieceFinished = FunctionRef<void(const CubeRange&)>;
void walk_block(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, void* scratch,
                const PieceFinished* finished);
// The sums of one panel of k go to args.c.
void walk_panel(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, size_t panel,
                void* scratch);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_ISA_BLOCK_WALK_H
