// Small products of f32 whose operands lie in the first two cache levels, and transposes into and
// out of the layout in which queries lie along the lanes. Included once per Highway target.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_SMALL_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_SMALL_PRODUCT_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_SMALL_PRODUCT_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_SMALL_PRODUCT_INL_H
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

#include "keel/backends/common/vector/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// C[m, n] = A B, or C += A B. Element (i, p) of A lies at a[i * a_row + p * a_step]. Rows of B hold
// whole vectors, whatever n is.
struct SmallProduct {
  const float* a;
  size_t a_row, a_step;
  const float* b;
  size_t b_row;
  float* c;
  size_t c_row;
  size_t m, n, k;
  // k is cut into runs of so many terms, at least 1. Each run is summed from 0, then added to the
  // sum of those before it.
  size_t terms = SIZE_MAX;
};

// Holds the sums of kRows x kVectors vectors of C in registers.
template <size_t kRows, size_t kVectors>
struct TileSums {
  using D = hn::ScalableTag<float>;
  hn::Vec<D> at[kRows][kVectors];

  HWY_INLINE void clear() {
#pragma GCC unroll 6
    for (size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) at[i][v] = hn::Zero(D());
    }
  }
  HWY_INLINE void add(const TileSums& other) {
#pragma GCC unroll 6
    for (size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) at[i][v] = hn::Add(at[i][v], other.at[i][v]);
    }
  }
  // Adds `terms` products of rows of A and a row of B, in their order.
  HWY_INLINE void multiply(const float* HWY_RESTRICT a, size_t a_row, size_t a_step,
                           const float* HWY_RESTRICT b, size_t b_row, size_t terms) {
    const D d;
    for (size_t p = 0; p < terms; ++p, a += a_step, b += b_row) {
      hn::Vec<D> right[kVectors];
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + v * hn::Lanes(d));
#pragma GCC unroll 6
      for (size_t i = 0; i < kRows; ++i) {
        const auto left = hn::Set(d, a[i * a_row]);
#pragma GCC unroll 2
        for (size_t v = 0; v < kVectors; ++v) at[i][v] = hn::MulAdd(left, right[v], at[i][v]);
      }
    }
  }
};

// Computes a tile of C and stores it, or adds it to what is there.
template <size_t kRows, size_t kVectors, bool kAdd>
HWY_INLINE void product_tile(const SmallProduct& p, const float* a, const float* b, float* c,
                             size_t c_row) {
  const hn::ScalableTag<float> d;
  TileSums<kRows, kVectors> sums;
  sums.clear();
  sums.multiply(a, p.a_row, p.a_step, b, p.b_row, std::min(p.terms, p.k));
  for (size_t at = p.terms; at < p.k; at += p.terms) {
    TileSums<kRows, kVectors> more;
    more.clear();
    more.multiply(a + at * p.a_step, p.a_row, p.a_step, b + at * p.b_row, p.b_row,
                  std::min(p.terms, p.k - at));
    sums.add(more);
  }
#pragma GCC unroll 6
  for (size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      float* to = c + i * c_row + v * hn::Lanes(d);
      if constexpr (kAdd) sums.at[i][v] = hn::Add(hn::LoadU(d, to), sums.at[i][v]);
      hn::StoreU(sums.at[i][v], d, to);
    }
  }
}

constexpr size_t kTileRows = 6;

template <size_t kVectors, bool kAdd>
HWY_INLINE void product_rows(const SmallProduct& p, size_t rows, const float* a, const float* b,
                             float* c, size_t c_row) {
  switch (rows) {
    case 1:
      return product_tile<1, kVectors, kAdd>(p, a, b, c, c_row);
    case 2:
      return product_tile<2, kVectors, kAdd>(p, a, b, c, c_row);
    case 3:
      return product_tile<3, kVectors, kAdd>(p, a, b, c, c_row);
    case 4:
      return product_tile<4, kVectors, kAdd>(p, a, b, c, c_row);
    case 5:
      return product_tile<5, kVectors, kAdd>(p, a, b, c, c_row);
    default:
      return product_tile<6, kVectors, kAdd>(p, a, b, c, c_row);
  }
}

// Columns [column, n), fewer than a tile's: the sums go through a tile of their own.
template <bool kAdd>
void product_rest(const SmallProduct& p, size_t column) {
  const hn::ScalableTag<float> d;
  constexpr size_t kMost = 2 * hn::MaxLanes(d);
  HWY_ALIGN float sums[kTileRows * kMost];
  const size_t count = p.n - column;
  for (size_t row = 0; row < p.m; row += kTileRows) {
    const size_t rows = std::min(kTileRows, p.m - row);
    const float* a = p.a + row * p.a_row;
    const float* b = p.b + column;
    if (count > hn::Lanes(d))
      product_rows<2, false>(p, rows, a, b, sums, kMost);
    else
      product_rows<1, false>(p, rows, a, b, sums, kMost);
    for (size_t i = 0; i < rows; ++i) {
      float* to = p.c + (row + i) * p.c_row + column;
      for (size_t j = 0; j < count; ++j)
        to[j] = kAdd ? to[j] + sums[i * kMost + j] : sums[i * kMost + j];
    }
  }
}

// Columns outside, so that a panel of B stays in the first cache level.
template <bool kAdd>
void multiply(const SmallProduct& p) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t column = 0;
  for (; column + lanes <= p.n; column += 2 * lanes) {
    const bool two = column + 2 * lanes <= p.n;
    if (!two && column + lanes != p.n) break;
    for (size_t row = 0; row < p.m; row += kTileRows) {
      const size_t rows = std::min(kTileRows, p.m - row);
      const float* a = p.a + row * p.a_row;
      float* c = p.c + row * p.c_row + column;
      if (two)
        product_rows<2, kAdd>(p, rows, a, p.b + column, c, p.c_row);
      else
        product_rows<1, kAdd>(p, rows, a, p.b + column, c, p.c_row);
    }
  }
  if (column < p.n) product_rest<kAdd>(p, column);
}

// to[j * to_row + i] = from[i * from_row + j] for i < rows, j < columns.
inline void turn(const float* from, size_t from_row, size_t rows, size_t columns, float* to,
                 size_t to_row) {
  const BlockTag d;
  constexpr size_t kSide = kBlockSide;
  const size_t whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
  for (size_t i = 0; i < whole_rows; i += kSide) {
    for (size_t j = 0; j < whole_columns; j += kSide) {
      hn::Vec<BlockTag> block[kSide];
      for (size_t r = 0; r < kSide; ++r) block[r] = hn::LoadU(d, from + (i + r) * from_row + j);
      transpose_block(block);
      for (size_t r = 0; r < kSide; ++r) hn::StoreU(block[r], d, to + (j + r) * to_row + i);
    }
  }
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j)
      to[j * to_row + i] = from[i * from_row + j];
  }
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_SMALL_PRODUCT_INL_H
