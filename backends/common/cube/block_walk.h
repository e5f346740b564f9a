// The walk over a rectangle of C that register tiles multiply: columns in blocks, k in panels, rows
// in blocks, tiles. Internal to this folder; any thread.
#ifndef KEEL_BACKENDS_COMMON_CUBE_BLOCK_WALK_H
#define KEEL_BACKENDS_COMMON_CUBE_BLOCK_WALK_H

#include <cstddef>

#include "keel/backends/common/cube/block_panels.h"
#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/core/base/function_ref.h"

namespace keel {

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

// Adds rows of sums, one behind the other, to those at `to`, whose rows lie `stride` floats apart.
inline void add_sums(const CubeKernels& kernels, const float* sums, size_t rows, size_t columns,
                     float* to, size_t stride) {
  TileCall sum;
  sum.tile = sums;
  sum.tile_stride = columns;
  sum.rows = rows;
  sum.cols = columns;
  sum.first = false;
  sum.c = to;
  sum.c_stride = stride;
  kernels.finish(sum);
}

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_BLOCK_WALK_H
