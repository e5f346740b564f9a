// How products on `cpu` are cut into tiles of C. Follows from the shape alone, so that results do
// not depend on the number of threads. Plain values; any thread.
#ifndef KEEL_BACKENDS_CPU_PRODUCT_CUT_H
#define KEEL_BACKENDS_CPU_PRODUCT_CUT_H

#include <algorithm>
#include <cstdint>

#include "keel/ops/products/product_matrices.h"

namespace keel::cpu {

// One tile of C: rows [m0, m1), columns [n0, n1).
struct Tile {
  int64_t m0, m1, n0, n1;
};

// Multiply-adds of a tile.
inline constexpr int64_t kWork = int64_t{4} << 20, kLeastWork = kWork / 16;

// Tiles of about 4 million multiply-adds, smaller products in two; cut along the longer side in
// steps of the kernel, which takes few of C's rows and many of its columns at once. Square ones are
// cut into whole rows, which an epilogue takes as one. Each tile loads the windows that it
// multiplies, so where one operand has windows its side is cut: along the other one every tile
// would load all of them.
struct Cut {
  explicit Cut(const ProductMatrices& p) : along_n(cuts_columns(p)) {
    if (p.rows_alone && along_n) {
      cut_steadily(p.n);
      return;
    }
    const int64_t work = p.m * p.n * std::max<int64_t>(1, p.k) * p.parts;
    const int64_t wanted =
        std::clamp<int64_t>(std::max(work / kWork, std::min<int64_t>(2, work / kLeastWork)), 1, 64);
    const int64_t side = along_n ? p.n : p.m;
    const int64_t step = along_n ? kColumns : kRows;
    tile = std::max(step, ((side + wanted - 1) / wanted + step - 1) / step * step);
    tiles = std::max<int64_t>(1, (side + tile - 1) / tile);
  }
  // The bits of an element depend on the columns that are multiplied with it, and on the rows but
  // for whole steps of kRows. So where rows are to be alone, what is multiplied at once along n
  // follows from n and k, and along m is whole steps (multiply_rest).
  void cut_steadily(int64_t n) {
    constexpr int64_t kTiles = 8, kLeast = 4 * kColumns;
    tile = std::max(kLeast, ((n + kTiles - 1) / kTiles + kColumns - 1) / kColumns * kColumns);
    tiles = (n + tile - 1) / tile;
  }
  static bool cuts_columns(const ProductMatrices& p) {
    constexpr int64_t kLongK = 128;
    if (p.rows_alone) return !p.a.windows && p.n >= 8 * kColumns && p.k > kLongK;
    const bool windows_a = p.a.windows.has_value(), windows_b = p.b.windows.has_value();
    // A side of few steps would leave threads without work.
    const bool enough = windows_b ? p.n >= 4 * kColumns : p.m >= 4 * kRows;
    return windows_a != windows_b && enough ? windows_b : p.n > p.m;
  }
  static constexpr int64_t kRows = 4, kColumns = 16;  // that the kernel takes at once
  bool along_n;
  int64_t tile = 0, tiles = 1;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_PRODUCT_CUT_H
