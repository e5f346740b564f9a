// BlockScratch: the scratch of the walk over a rectangle of C (block_walk.h), and how much of the
// operands it copies at a time, and the pieces of its scratch. Internal to this folder; any thread.
#ifndef KEEL_BACKENDS_COMMON_CUBE_BLOCK_SCRATCH_H
#define KEEL_BACKENDS_COMMON_CUBE_BLOCK_SCRATCH_H

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "keel/backends/common/cube/block_walk.h"
#include "keel/backends/common/cube/cube_taps.h"
#include "keel/backends/common/cube/cube_windows.h"
#include "keel/core/base/checked.h"
#include "keel/ops/product_bound.h"

namespace keel {

inline constexpr size_t kAlignment = 64;
// Bytes of images that a block copies at a time, if its windows do not reach further: with B's
// panel they stay in L2.
inline constexpr size_t kStripBytes = size_t{64} * 1024;
// Windows of a panel that are multiplied one after the other where k runs over windows: with as
// many rows of B, the lines on which they lie stay in L1 for all rows of A. A single tile of rows
// reads them once.
inline size_t windows_at_once(const CubePlan& plan) {
  constexpr size_t kBytes = size_t{20} << 10, kLeast = 128, kMost = 512;
  if (plan.problem.m <= plan.kernels->rows) return std::max(plan.k_panel, kLeast);
  const size_t of_window = (plan.windows->k_step() + plan.kernels->cols) * sizeof(float);
  return std::clamp(kBytes / of_window, kLeast, kMost);
}

// Elements from row to row of windows in their buffer.
inline size_t window_stride(size_t columns, size_t element_size) {
  const bool same_set = columns * element_size % kSameSet == 0;
  return columns + (same_set ? kAlignment / element_size : 0);
}

// Lines of the images that a rectangle of so many rows copies at a time; 0 where it copies none.
inline int64_t strip_lines(const CubePlan& plan, size_t rows) {
  if (plan.windows == nullptr || !plan.windows->copies()) return 0;
  const CubeWindows& windows = *plan.windows;
  const size_t all = plan.problem.transpose_a ? plan.k_panel : rows;
  const size_t least = plan.problem.transpose_a ? windows_at_once(plan) : row_block(plan);
  const auto fitting = static_cast<int64_t>(kStripBytes / windows.line_bytes());
  return std::max(std::min(windows.most_lines(all), fitting),
                  windows.most_lines(std::min(all, least)));
}

// Rows of the register tile that multiplies. Where k runs over windows, the rows of A are few, and
// tiles have as many of them each: as many as a kernel writes.
inline size_t tile_rows(const CubePlan& plan) {
  if (plan.taps != nullptr) return plan.kernels->tap_rows;
  const size_t most = plan.kernels->rows, m = std::max<size_t>(plan.problem.m, 1);
  if (plan.windows == nullptr || !plan.problem.transpose_a) return most;
  const size_t tiles = (m + most - 1) / most;
  return spread_rows_written((m + tiles - 1) / tiles);
}

// Says whether the parts of k are added up tile by tile: where each is one short panel, A is stored
// [k, m] and neither operand is windows, so that all parts are packed at once.
inline bool adds_tiles_of_parts(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  const size_t depth = round_up(plan.k_panel, plan.kernels->k_multiple);
  return p.parts > 1 && panels_of_part(plan) == 1 && p.transpose_a && !p.a_windows &&
         !p.b_windows && p.parts * depth <= kLongestProductPanel;
}

// Sums that wait for those of later parts, at most.
inline size_t waiting_sums(const CubePlan& plan) { return std::bit_width(plan.problem.parts - 1); }

// The pieces of the scratch that a rectangle of rows x cols needs.
struct BlockScratch {
  size_t a = 0, b = 0, tile = 0, windows = 0, places = 0, places_of_c = 0, runs = 0, strip = 0;
  size_t parts = 0, additions = 0, total = 0;

  BlockScratch(const CubePlan& plan, size_t rows, size_t cols) {
    const CubeKernels& kernels = *plan.kernels;
    const size_t at_once = adds_tiles_of_parts(plan) ? plan.problem.parts : 1;
    const size_t depth = at_once * round_up(plan.k_panel, kernels.k_multiple);
    const bool taps = plan.taps != nullptr;
    const bool spreads = plan.windows != nullptr, lines = spreads && plan.windows->by_lines();
    const size_t block = std::min(rows, row_block(plan));
    const size_t a_rows = taps || spreads ? 0 : round_up(block, kernels.rows);
    const size_t most = plan.problem.packed_b ? 0 : column_block(kernels);
    const size_t b_cols = round_up(std::min(cols, most), kernels.cols);
    b = align_up((a_rows * depth + kPackSlack) * kernels.packed_size, kAlignment);
    tile = b + align_up((b_cols * depth + kPackSlack) * kernels.packed_size, kAlignment);
    const CubeProblem& p = plan.problem;
    const bool all_tiles = taps || (spreads && p.transpose_a);
    const size_t sums = all_tiles
                            ? (round_up(rows, tile_rows(plan)) + (taps ? tile_rows(plan) : 0)) *
                                  round_up(std::min(cols, column_block(kernels)), kernels.cols)
                            : (lines ? block : kernels.rows) * kernels.cols;
    windows = tile + align_up(sums * sizeof(float), kAlignment);
    const auto bytes = [&](size_t side, DType dtype) {
      const size_t size = size_of(dtype);
      return std::max(side * window_stride(depth, size), depth * window_stride(side, size)) * size;
    };
    const size_t left = p.a_windows ? bytes(a_rows, p.a) : 0;
    const size_t right = p.b_windows ? bytes(kernels.cols, p.b) : 0;
    places = windows + align_up(std::max(left, right), kAlignment);
    const size_t listed = lines ? p.k : spreads ? round_up(block, kernels.rows) : 0;
    places_of_c = places + align_up(listed * sizeof(size_t), kAlignment);
    const size_t rows_of_c = spreads && !lines && !p.transpose_a ? listed : 0;
    runs = places_of_c + align_up(rows_of_c * sizeof(size_t), kAlignment);
    const size_t run_bytes = taps ? sizeof(TapRun) : spreads ? sizeof(CubeRun) : 0;
    strip = runs + align_up(plan.k_panel * run_bytes, kAlignment);
    const auto copied = static_cast<size_t>(strip_lines(plan, rows));
    parts = align_up(strip + (copied == 0 ? 0 : copied * plan.windows->line_bytes()), kAlignment);
    // The sums that wait are a tile's, or those of all columns that are packed at a time.
    const size_t waiting =
        at_once > 1 ? kernels.rows * kernels.cols : rows * std::min(cols, column_block(kernels));
    additions = parts + waiting_sums(plan) * waiting * sizeof(float);
    total = additions + (at_once > 1 ? at_once : 0);
  }
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_BLOCK_SCRATCH_H
