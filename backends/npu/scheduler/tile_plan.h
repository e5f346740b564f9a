// TilePlan: what the scheduler's decision says in numbers of blocks and sizes of tiles, spelled
// out: which tiles each core walks through, in their order. Prices count these tiles; strict runs
// carry them out (planned/). Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_SCHEDULER_TILE_PLAN_H
#define KEEL_BACKENDS_NPU_SCHEDULER_TILE_PLAN_H

#include <cstdint>
#include <vector>

#include "keel/backends/common/reduce_plan.h"
#include "keel/backends/npu/kernels/cube_work.h"
#include "keel/backends/npu/scheduler/scheduler.h"

namespace keel::npu {

// A rectangle of what a launch computes. Vector work has one column: a tile is a range of elements,
// or of rows. Of a reduction it is a range of results, for one chunk of each or for all of them.
struct PlannedTile {
  static constexpr int64_t kAllChunks = -1;

  int64_t batch = 0;  // of a product; of a reduction the chunk
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 1;
  int64_t end() const { return row + rows; }
};

// The partial results of one chunk that are added to those of the chunks before.
using PlannedMerge = PlannedTile;

struct TilePlan {
  using Cores = std::vector<std::vector<PlannedTile>>;
  Cores cores;                       // the tiles of each block
  std::vector<PlannedMerge> merges;  // of a reduction whose chunks several cores share, in order
  Cores behind;                      // what the cores do once all partial results are merged
};

// Element-wise work over so many elements.
TilePlan plan_elements(const VectorWork& work, int64_t block_dim, int64_t elements);
// Work row by row: tiles of whole rows.
TilePlan plan_rows(const VectorWork& work, int64_t block_dim, int64_t rows, int64_t columns);
TilePlan plan_reduction(const Launch& launch, const ReducePlan& numeric);
// A product of integers: units are rows of its tiles.
TilePlan plan_vector_product(const VectorWork& work, int64_t block_dim,
                             const IntegerProductTiles& tiles);
// A product's part for each block, in tiles of bm x bn.
TilePlan plan_product(const CubeWork& work, const CubeTiling& tiling);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_SCHEDULER_TILE_PLAN_H
