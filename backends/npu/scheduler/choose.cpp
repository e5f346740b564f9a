#include <algorithm>
#include <cmath>
#include <tuple>

#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/backends/npu/scheduler/tile_plan.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"

namespace keel::npu {
namespace {

// Returns the whole fractals that hold so many rows, columns or steps of k, at least one.
int64_t fractals(int64_t extent) { return std::max<int64_t>(1, divide_up(extent, kFractal)); }

// Checks whether a tiling has room in L0 (twice for the operands, which are loaded beside the
// product) and in L1 (twice, for the copies beside it); the name of the buffer that is too small,
// or null.
struct Need {
  const char* buffer = nullptr;
  int64_t bytes = 0;
  int64_t size = 0;
};
Need too_small(const Preset& p, const CubeTiling& t, int64_t element) {
  const int64_t twice = t.double_buffer ? 2 : 1;
  const Need needs[] = {{"L0A", twice * t.bm * t.bk * element, p.l0a_bytes},
                        {"L0B", twice * t.bk * t.bn * element, p.l0b_bytes},
                        {"L0C", t.bm * t.bn * 4, p.l0c_bytes},
                        {"L1", twice * (t.bm + t.bn) * t.bk * t.step_k * element, p.l1_bytes}};
  for (const Need& need : needs) {
    if (need.bytes > need.size) return need;
  }
  return {};
}

// Keeps the best so far; of equals the one with fewer blocks, then the first.
void keep_better(Choice& best, bool& found, const Choice& candidate) {
  const auto key = [](const Choice& c) { return std::tuple(c.price.total_ns, c.price.block_dim); };
  if (!found || key(candidate) < key(best)) best = candidate;
  found = true;
}

// Row-wise ops want whole rows of C: those of a tile with fewer columns wait in half of unified
// buffer until the last columns are there.
bool has_room_for_rows(const Preset& preset, const CubeWork& work, const CubeTiling& t) {
  if (!work.whole_rows || work.rows_by_blocks || t.bn >= work.n) return true;
  return checked_mul(checked_mul(std::min(t.bm, work.m), work.n), 4) <= preset.ub_bytes / 2;
}

// Tiles worth trying for a product: sides of 16 to 256 that do not exceed C's by more than the
// fractal, each with the deepest k that L0 and L1 hold, in packets of 1, 2, 4 and 8.
std::vector<CubeTiling> tilings(const Preset& preset, const CubeWork& work) {
  std::vector<CubeTiling> list;
  const auto element = static_cast<int64_t>(size_of(work.dtype));
  const auto sides = [](int64_t extent) {
    std::vector<int64_t> result;
    for (int64_t side = kFractal; side <= 256; side *= 2) {
      const int64_t clipped = std::min(side, fractals(extent) * kFractal);
      if (result.empty() || result.back() != clipped) result.push_back(clipped);
    }
    return result;
  };
  for (const int64_t bm : sides(work.m)) {
    for (const int64_t bn : sides(work.n)) {
      CubeTiling t;
      t.bm = bm;
      t.bn = bn;
      const int64_t depth =
          std::min({preset.l0a_bytes / (2 * bm * element), preset.l0b_bytes / (2 * bn * element),
                    preset.l1_bytes / (2 * (bm + bn) * element)});
      t.bk = std::min(depth / kFractal, fractals(work.k)) * kFractal;
      if (t.bk == 0) continue;
      for (t.step_k = 1; t.step_k <= 8; t.step_k *= 2) {
        if (t.step_k > 1 && t.bk * t.step_k / 2 >= work.k) break;
        if (too_small(preset, t, element).buffer == nullptr) list.push_back(t);
      }
    }
  }
  return list;
}

// Returns whether one part less gives the same parts, but for empty ones.
bool cuts_alike(int64_t units, int64_t parts) {
  return parts > 1 && divide_up(units, parts) == divide_up(units, parts - 1);
}

}  // namespace

CubeWork with_rows_in_memory(CubeWork work) {
  const int64_t own = work.wide ? 4 : static_cast<int64_t>(size_of(work.dtype));
  work.epilogue_bytes_out = (work.epilogue_bytes_out < 0 ? own : work.epilogue_bytes_out) + 4;
  work.epilogue_bytes_in += 4;
  return work;
}

double best_blocks(const Preset& preset, double single_core_ns, int64_t cores) {
  if (preset.task_per_block_ns == 0) return static_cast<double>(cores);
  return std::sqrt(single_core_ns / static_cast<double>(preset.task_per_block_ns));
}

Choice choose_vector(const Preset& preset, const std::vector<Split>& splits, int64_t blocks,
                     bool forced) {
  Choice best;
  bool found = false;
  int64_t most_units = 1;
  for (const Split& split : splits) most_units = std::max(most_units, split.work.units);
  for (size_t s = 0; s < splits.size(); ++s) {
    VectorWork work = splits[s].work;
    const int64_t most =
        std::min(forced ? blocks : std::min(blocks, preset.vector_cores), work.units);
    // A forced number is taken from the split that has most units.
    if (forced && work.units < most_units) continue;
    for (int64_t b = forced ? most : 1; b <= most; ++b) {
      // A lone block writes its results, there is nothing to merge.
      work.bytes_out_per_block = b == 1 ? 0 : splits[s].work.bytes_out_per_block;
      const TaskPrice price = price_vector(preset, work, b);
      keep_better(best, found, {price, {}, s});
      // Starting more blocks alone takes longer than the best so far.
      if (price.overhead_ns > best.price.total_ns) break;
    }
  }
  return best;
}

Choice choose_cube(const Preset& preset, const CubeWork& work, int64_t blocks, bool forced) {
  Choice best;
  bool found = false;
  const int64_t most = forced ? blocks : std::min(blocks, preset.cube_cores);
  const int64_t batches = std::max<int64_t>(1, work.batch);
  const int64_t units_m = fractals(work.m);
  const int64_t units_n = work.whole_rows ? 1 : fractals(work.n);
  int64_t reached = 0;
  const CubeWork in_memory = with_rows_in_memory(work);
  for (CubeTiling t : tilings(preset, work)) {
    const bool has_room = has_room_for_rows(preset, work, t);
    const CubeWork& tiled = has_room ? work : in_memory;
    for (t.grid_batch = 1; t.grid_batch <= std::min(most, batches); ++t.grid_batch) {
      const int64_t rest = most / t.grid_batch;
      if (cuts_alike(batches, t.grid_batch)) continue;
      for (t.grid_m = 1; t.grid_m <= std::min(rest, units_m); ++t.grid_m) {
        if (cuts_alike(units_m, t.grid_m)) continue;
        for (t.grid_n = 1; t.grid_n <= std::min(rest / t.grid_m, units_n); ++t.grid_n) {
          if (cuts_alike(units_n, t.grid_n)) continue;
          if (forced && t.grid_batch * t.grid_m * t.grid_n < reached) continue;
          const Choice candidate{price_cube(preset, tiled, t), t, 0, !has_room};
          if (forced && candidate.price.block_dim < reached) continue;
          if (forced && candidate.price.block_dim > reached) found = false;
          reached = std::max(reached, candidate.price.block_dim);
          keep_better(best, found, candidate);
        }
      }
    }
  }
  if (found) return best;
  throw Error({.op = "matmul",
               .argument = "L0 and L1",
               .expected = "room for a tile of 16x16x16",
               .got = preset.name + ", which has less",
               .fix = "choose another preset"});
}

}  // namespace keel::npu
