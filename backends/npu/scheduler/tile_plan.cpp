#include "keel/backends/npu/scheduler/tile_plan.h"

#include <algorithm>

namespace keel::npu {
namespace {

struct Range {
  int64_t begin = 0, end = 0;
};

// The units of a block; every block but the last ones has as many.
Range units_of(const VectorWork& work, int64_t block_dim, int64_t block) {
  const int64_t each = divide_up(work.units, block_dim);
  return {std::min(work.units, block * each), std::min(work.units, (block + 1) * each)};
}

std::vector<PlannedTile> cut(const Range& range, int64_t step) {
  std::vector<PlannedTile> tiles;
  for (int64_t at = range.begin; at < range.end; at += step) {
    tiles.push_back({.row = at, .rows = std::min(step, range.end - at)});
  }
  return tiles;
}

TilePlan::Cores cut_elements(const VectorWork& work, int64_t block_dim, int64_t elements) {
  TilePlan::Cores cores;
  for (int64_t block = 0; block < block_dim; ++block) {
    const Range units = units_of(work, block_dim, block);
    cores.push_back(cut({std::min(elements, units.begin * work.elements_per_unit),
                         std::min(elements, units.end * work.elements_per_unit)},
                        std::max<int64_t>(1, work.tile_elements)));
  }
  return cores;
}

// Units are groups of neighbouring results, of one chunk each where chunks are shared.
struct ReductionUnits {
  const ReducePlan& numeric;
  int64_t group;   // results of a unit
  int64_t groups;  // of an output row

  ReductionUnits(const ReducePlan& plan, int64_t results_of_a_unit)
      : numeric(plan), group(results_of_a_unit), groups(divide_up(plan.width(), group)) {}

  // By chunks: chunk by chunk within an output row.
  void add_chunks(const Range& units, std::vector<PlannedTile>& tiles) const {
    for (int64_t u = units.begin; u < units.end;) {
      const int64_t chunk = u / groups % numeric.chunks(), outer = u / groups / numeric.chunks();
      const int64_t first = u % groups, last = std::min(groups, first + units.end - u);
      const int64_t begin = first * group, end = std::min(numeric.width(), last * group);
      tiles.push_back(
          {.batch = chunk, .row = outer * numeric.width() + begin, .rows = end - begin});
      u += last - first;
    }
  }
};

}  // namespace

TilePlan plan_elements(const VectorWork& work, int64_t block_dim, int64_t elements) {
  return {.cores = cut_elements(work, block_dim, elements), .merges = {}, .behind = {}};
}

TilePlan plan_rows(const VectorWork& work, int64_t block_dim, int64_t rows, int64_t columns) {
  TilePlan plan;
  const int64_t together = std::max<int64_t>(1, work.tile_elements / std::max<int64_t>(1, columns));
  for (int64_t block = 0; block < block_dim; ++block) {
    const Range units = units_of(work, block_dim, block);
    plan.cores.push_back(cut({std::min(rows, units.begin), std::min(rows, units.end)}, together));
  }
  return plan;
}

TilePlan plan_reduction(const Launch& launch, const ReducePlan& numeric) {
  TilePlan plan;
  const VectorWork& work = launch.split.work;
  const int64_t blocks = launch.price.block_dim;
  if (!launch.split.merges) {
    const int64_t group = std::max<int64_t>(1, launch.split.results_of_a_unit);
    for (int64_t block = 0; block < blocks; ++block) {
      const Range units = units_of(work, blocks, block);
      const int64_t begin = std::min(numeric.results(), units.begin * group);
      const int64_t end = std::min(numeric.results(), units.end * group);
      plan.cores.emplace_back();
      if (begin < end) {
        plan.cores.back().push_back(
            {.batch = PlannedTile::kAllChunks, .row = begin, .rows = end - begin});
      }
    }
    return plan;
  }
  const ReductionUnits units(numeric, std::max<int64_t>(1, launch.split.results_of_a_unit));
  for (int64_t block = 0; block < blocks; ++block) {
    plan.cores.emplace_back();
    units.add_chunks(units_of(work, blocks, block), plan.cores.back());
  }
  // Atomic additions have no order of their own; the numeric plan's is that of the chunks.
  for (int64_t chunk = 0; chunk < numeric.chunks(); ++chunk) {
    for (const auto& tiles : plan.cores) {
      for (const PlannedTile& tile : tiles) {
        if (tile.batch == chunk) plan.merges.push_back(tile);
      }
    }
  }
  if (work.epilogue != nullptr) {
    plan.behind =
        cut_elements(*work.epilogue, std::min(blocks, work.epilogue->units), numeric.results());
  }
  return plan;
}

// Whole rows of the result are taken together; those that a block shares with its neighbours by
// themselves.
TilePlan plan_vector_product(const VectorWork& work, int64_t block_dim,
                             const IntegerProductTiles& t) {
  TilePlan plan;
  if (t.batch == 0 || t.m == 0 || t.n == 0) return plan;
  const int64_t across = divide_up(t.n, t.columns);
  for (int64_t block = 0; block < block_dim; ++block) {
    std::vector<PlannedTile>& tiles = plan.cores.emplace_back();
    const Range units = units_of(work, block_dim, block);
    for (int64_t u = units.begin; u < units.end;) {
      const int64_t row = u / across, first = u % across, left = units.end - u;
      int64_t rows = 1, last = std::min(across, first + left);
      if (first == 0 && left >= across) rows = std::min({left / across, t.m - row % t.m, t.rows});
      for (int64_t unit = first; unit < last; ++unit) {
        const int64_t column = unit * t.columns;
        tiles.push_back({row / t.m, row % t.m, rows, column, std::min(t.columns, t.n - column)});
      }
      u += rows * (last - first);
    }
  }
  return plan;
}

TilePlan plan_product(const CubeWork& work, const CubeTiling& tiling) {
  TilePlan plan;
  if (work.batch == 0 || work.m == 0 || work.n == 0) return plan;
  const int64_t rows = part_of_grid(work.m, tiling.grid_m);
  const int64_t columns = part_of_grid(work.n, tiling.grid_n);
  const int64_t batches = divide_up(work.batch, tiling.grid_batch);
  for (int64_t batch = 0; batch < work.batch; batch += batches) {
    for (int64_t m = 0; m < work.m; m += rows) {
      for (int64_t n = 0; n < work.n; n += columns) {
        std::vector<PlannedTile>& tiles = plan.cores.emplace_back();
        const int64_t end_m = std::min(work.m, m + rows), end_n = std::min(work.n, n + columns);
        for (int64_t b = batch; b < std::min(work.batch, batch + batches); ++b) {
          for (int64_t i = m; i < end_m; i += tiling.bm) {
            for (int64_t j = n; j < end_n; j += tiling.bn) {
              tiles.push_back(
                  {b, i, std::min(tiling.bm, end_m - i), j, std::min(tiling.bn, end_n - j)});
            }
          }
        }
      }
    }
  }
  return plan;
}

}  // namespace keel::npu
