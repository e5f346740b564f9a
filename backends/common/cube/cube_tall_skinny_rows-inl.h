// Products of A stored [m, k] with few columns: k lies in the lanes. Vectors of A's rows meet
// vectors of B's columns, which are packed as rows (pack_columns); each element of C has one
// accumulator vector, whose lanes are added at the end. A is read in place, or widened row by row.
// Included once per Highway target.
#if defined(KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_ROWS_INL_H
#undef KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_ROWS_INL_H
#else
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_ROWS_INL_H
#endif

#include <algorithm>

#include "hwy/highway.h"

#include "keel/backends/common/cube/cube_tall_skinny-inl.h"
#include "keel/core/base/gather_rows.h"
#include "keel/ops/product_bound.h"

HWY_BEFORE_NAMESPACE();
namespace keel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows and columns of C at once. Where loading is work, all columns of the usual few classes fit
// beside each other, so that it is done once.
template <class Lanes>
struct DotTile {
  static constexpr size_t kPlainRows = kManyRegisters ? 4 : 2;
  static constexpr size_t kPlainColumns = kManyRegisters ? 6 : 5;
  static constexpr size_t kRows = Lanes::kConverts ? kPlainRows / 2 : kPlainRows;
  static constexpr size_t kColumns = Lanes::kConverts ? 10 : kPlainColumns;
};

// One or two columns are bound by reading A: more rows at once need fewer sums of lanes.
template <class Lanes>
struct FewColumnsTile {
  static constexpr size_t kRows = std::max<size_t>(4, 2 * DotTile<Lanes>::kRows);
  static constexpr size_t kColumns = 2;
};

template <class Lanes, size_t kRows, size_t kColumns>
HWY_INLINE void dot_step(LaneVec (&sums)[kRows][kColumns], const LaneVec (&a)[kRows],
                         const float* b, size_t b_stride) {
#pragma GCC unroll 16
  for (size_t c = 0; c < kColumns; ++c) {
    const auto right = hn::LoadU(FloatTag(), b + c * b_stride);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      sums[r][c] = Lanes::multiply_add(a[r], right, sums[r][c]);
    }
  }
}

// The lanes of as many vectors as one has lanes, or fewer, added in the order of SumOfLanes, as one
// vector.
template <size_t kCount>
HWY_INLINE LaneVec sums_of_lanes(const LaneVec* v) {
#if HWY_TARGET == HWY_AVX3
  const auto at = [&](size_t i) HWY_ATTR { return i < kCount ? v[i].raw : _mm512_setzero_ps(); };
  __m512 eighths[8], quarters[4], halves[2];
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; ++i) {  // lane j and j + 8 of vectors i and i + 8
    eighths[i] = _mm512_add_ps(_mm512_shuffle_f32x4(at(i), at(i + 8), 0x44),
                               _mm512_shuffle_f32x4(at(i), at(i + 8), 0xee));
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {  // j and j + 4: blocks are vectors i, i + 8, i + 4, i + 12
    quarters[i] = _mm512_add_ps(_mm512_shuffle_f32x4(eighths[i], eighths[i + 4], 0x88),
                                _mm512_shuffle_f32x4(eighths[i], eighths[i + 4], 0xdd));
  }
#pragma GCC unroll 2
  for (size_t i = 0; i < 2; ++i) {  // j and j + 2
    halves[i] = _mm512_add_ps(_mm512_shuffle_ps(quarters[i], quarters[i + 2], 0x44),
                              _mm512_shuffle_ps(quarters[i], quarters[i + 2], 0xee));
  }
  const __m512 sums = _mm512_add_ps(_mm512_shuffle_ps(halves[0], halves[1], 0x88),
                                    _mm512_shuffle_ps(halves[0], halves[1], 0xdd));
  // In blocks of 4 lanes: vectors 0 2 1 3, 8 10 9 11, 4 6 5 7, 12 14 13 15.
  const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
  return LaneVec{_mm512_permutexvar_ps(order, sums)};
#elif HWY_TARGET == HWY_AVX2
  const auto at = [&](size_t i) HWY_ATTR { return i < kCount ? v[i].raw : _mm256_setzero_ps(); };
  __m256 quarters[4], halves[2];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {  // lane j and j + 4 of vectors i and i + 4
    quarters[i] = _mm256_add_ps(_mm256_permute2f128_ps(at(i), at(i + 4), 0x20),
                                _mm256_permute2f128_ps(at(i), at(i + 4), 0x31));
  }
#pragma GCC unroll 2
  for (size_t i = 0; i < 2; ++i) {  // j and j + 2
    halves[i] = _mm256_add_ps(_mm256_shuffle_ps(quarters[i], quarters[i + 2], 0x44),
                              _mm256_shuffle_ps(quarters[i], quarters[i + 2], 0xee));
  }
  const __m256 sums = _mm256_add_ps(_mm256_shuffle_ps(halves[0], halves[1], 0x88),
                                    _mm256_shuffle_ps(halves[0], halves[1], 0xdd));
  // In blocks of 4 lanes: vectors 0 2 1 3, 4 6 5 7.
  return LaneVec{_mm256_permute_ps(sums, 0xd8)};
#else
  const FloatTag d;
  HWY_ALIGN float sums[hn::MaxLanes(FloatTag())] = {};
  for (size_t i = 0; i < kCount; ++i) sums[i] = hn::GetLane(hn::SumOfLanes(d, v[i]));
  return hn::Load(d, sums);
#endif
}

// The sums of the lanes of kCount vectors go to `to`, and nothing behind them.
template <size_t kCount>
HWY_INLINE void store_row_sums(const LaneVec* sums, float* to) {
  const FloatTag d;
  constexpr size_t kNow = std::min(kCount, kFloatLanes);
  const auto added = sums_of_lanes<kNow>(sums);
  if constexpr (kNow == kFloatLanes) {
    hn::StoreU(added, d, to);
  } else {
    hv::store_part(d, added, to, kNow);
  }
  if constexpr (kNow < kCount) store_row_sums<kCount - kNow>(sums + kNow, to + kNow);
}

// tile[r][c] becomes the sum of the lanes of sums[r][c]. All sums that fit into one vector are
// added at once, as a product with one or two columns would else spend its time there.
template <size_t kRows, size_t kColumns>
HWY_INLINE void store_sums(const LaneVec (&sums)[kRows][kColumns], float* tile) {
  const FloatTag d;
  constexpr size_t kSums = kRows * kColumns;
  if constexpr (kSums <= kFloatLanes) {
    LaneVec in_line[kSums];
#pragma GCC unroll 16
    for (size_t i = 0; i < kSums; ++i) in_line[i] = sums[i / kColumns][i % kColumns];
    HWY_ALIGN float added[kFloatLanes];
    hn::Store(sums_of_lanes<kSums>(in_line), d, added);
    for (size_t r = 0; r < kRows; ++r) {
      std::copy_n(added + r * kColumns, kColumns, tile + r * kNarrowStride);
    }
    return;
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
    store_row_sums<kColumns>(sums[r], tile + r * kNarrowStride);
  }
}

// sums of kRows rows of A and kColumns rows of packed B over k from `p` on, to tile[r][c].
template <size_t kRows, size_t kColumns, class Lanes>
HWY_INLINE void dot_run(const Lanes& lanes, const typename Lanes::Element* const* a, const float* b,
                        size_t b_stride, size_t p, size_t k, float* tile) {
  const FloatTag d;
  LaneVec sums[kRows][kColumns];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t c = 0; c < kColumns; ++c) sums[r][c] = hn::Zero(d);
  }
  constexpr size_t kStep = kFloatLanes * Lanes::kDepth;
  LaneVec left[kRows];
  b += p / Lanes::kDepth;
  for (; p + kStep <= k; p += kStep, b += kFloatLanes) {
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) left[r] = lanes.along(a[r] + p);
    dot_step<Lanes>(sums, left, b, b_stride);
  }
  if (p < k) {
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) left[r] = lanes.along_part(a[r] + p, k - p);
    dot_step<Lanes>(sums, left, b, b_stride);
  }
  store_sums(sums, tile);
}

// The same over all of k. Where few lanes would make too long a chain of sums, in runs whose sums
// are added up.
template <size_t kRows, size_t kColumns, class Lanes>
HWY_INLINE void dot_tile(const Lanes& lanes, const typename Lanes::Element* const* a,
                         const float* b, size_t b_stride, size_t k, float* tile) {
  constexpr size_t kRun = kFloatLanes * Lanes::kDepth * kLongestProductPanel;
  if constexpr (kRun >= kTallSkinnyMaxK) {
    dot_run<kRows, kColumns>(lanes, a, b, b_stride, 0, k, tile);
  } else {
    dot_run<kRows, kColumns>(lanes, a, b, b_stride, 0, std::min(k, kRun), tile);
    for (size_t p = kRun; p < k; p += kRun) {
      HWY_ALIGN float next[kRows * kNarrowStride];
      dot_run<kRows, kColumns>(lanes, a, b, b_stride, p, std::min(k, p + kRun), next);
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t c = 0; c < kColumns; ++c) {
          tile[r * kNarrowStride + c] += next[r * kNarrowStride + c];
        }
      }
    }
  }
}

template <size_t kRows, size_t kColumns, class Lanes>
HWY_INLINE void dot_columns(size_t columns, const Lanes& lanes,
                            const typename Lanes::Element* const* a, const float* b,
                            size_t b_stride, size_t k, float* tile) {
  if constexpr (kColumns > 0) {
    if (columns == kColumns) {
      return dot_tile<kRows, kColumns>(lanes, a, b, b_stride, k, tile);
    }
    dot_columns<kRows, kColumns - 1>(columns, lanes, a, b, b_stride, k, tile);
  }
}

// `rows` rows of A, at most kRows, and all columns, these in groups as equal as they can be.
template <size_t kRows, size_t kColumns, class Lanes>
HWY_INLINE void dot_rows(const Lanes& lanes, const typename Lanes::Element* const* a, size_t rows,
                         const float* b, size_t b_stride, size_t columns, size_t k, float* tile) {
  const size_t groups = (columns + kColumns - 1) / kColumns;
  for (size_t g = 0; g < groups; ++g) {
    const size_t c0 = columns * g / groups, c1 = columns * (g + 1) / groups;
    const float* right = b + c0 * b_stride;
    // Tiles of one row are their own remainder.
    if constexpr (kRows > 1) {
      if (rows == kRows) {
        dot_columns<kRows, kColumns>(c1 - c0, lanes, a, right, b_stride, k, tile + c0);
        continue;
      }
    }
    for (size_t r = 0; r < rows; ++r) {
      dot_columns<1, kColumns>(c1 - c0, lanes, a + r, right, b_stride, k,
                               tile + r * kNarrowStride + c0);
    }
  }
}

// Rows of A that are scattered over a table do not come by themselves: those from `begin` on are
// asked for. They go to the second cache, from which the products meanwhile read B. Always inlined,
// as calls of what only prefetches are dropped.
constexpr size_t kGatheredAhead = 8;

HWY_INLINE void prefetch_gathered(const TallSkinnyCall& call, size_t begin, size_t count) {
  const size_t bytes = call.problem.k * size_of(call.problem.a);
  const size_t end = std::min(begin + count, call.range.m1);
  for (size_t i = begin; i < end; ++i) {
    prefetch_row<kIntoSecondCache>(
        static_cast<const std::byte*>(element_at(call.args.a, call.problem.a, call.args.a_rows[i])),
        bytes);
  }
}

// Rows of the tile become columns of C.
inline void finish_transpose(const TallSkinnyCall& call, size_t begin, size_t rows,
                             const float* tile) {
  float* c = call.args.c + begin - call.args.c_row +
             (call.range.n0 - call.args.c_column) * call.args.c_stride;
  for (size_t j = 0; j < call.range.n1 - call.range.n0; ++j, c += call.args.c_stride)
    for (size_t r = 0; r < rows; ++r) c[r] = tile[r * kNarrowStride + j];
}

// All rows of the range, kRows at a time.
template <size_t kRows, class F>
HWY_INLINE void for_row_groups(const TallSkinnyCall& call, const F& f) {
  if (call.args.a_rows != nullptr) prefetch_gathered(call, call.range.m0, kGatheredAhead);
  for (size_t i = call.range.m0; i < call.range.m1; i += kRows) {
    const size_t rows = std::min(kRows, call.range.m1 - i);
    if (call.args.a_rows != nullptr) prefetch_gathered(call, i + kGatheredAhead, rows);
    HWY_ALIGN float tile[kRows * kNarrowStride];
    f(i, rows, tile);
    if (call.writes_transpose)
      finish_transpose(call, i, rows, tile);
    else
      finish_part(call, {i, i + rows, call.range.n0, call.range.n1}, tile, kNarrowStride);
  }
}

inline size_t row_start(const TallSkinnyCall& call, size_t i) {
  return call.args.a_rows == nullptr ? i * call.args.a_stride : call.args.a_rows[i];
}

// All rows of the range with B's columns.
struct DotRows {
  const TallSkinnyCall& call;

  const void* stored(size_t i) const {
    return element_at(call.args.a, call.problem.a, row_start(call, i));
  }

  // `row(i, r)`: where the elements of row i are, the r-th of a group.
  template <class Lanes, class Row>
  HWY_INLINE void run(const Lanes& lanes, const Row& row) const {
    const size_t columns = call.range.n1 - call.range.n0;
    if (columns <= FewColumnsTile<Lanes>::kColumns) {
      run_tiles<FewColumnsTile<Lanes>>(lanes, row, columns);
    } else {
      run_tiles<DotTile<Lanes>>(lanes, row, columns);
    }
  }

  template <class Lanes>
  HWY_INLINE void operator()(const Lanes& lanes) const {
    run(lanes,
        [&](size_t i, size_t) { return static_cast<const typename Lanes::Element*>(stored(i)); });
  }

 private:
  template <class Tile, class Lanes, class Row>
  HWY_INLINE void run_tiles(const Lanes& lanes, const Row& row, size_t columns) const {
    // Rows that are computed one by one are finished together.
    constexpr size_t kGroup = Tile::kRows == 1 ? 4 : Tile::kRows;
    for_row_groups<kGroup>(call, [&](size_t i, size_t rows, float* tile) HWY_ATTR {
      const typename Lanes::Element* a[kGroup];
      for (size_t r = 0; r < rows; ++r) a[r] = row(i + r, r);
      dot_rows<Tile::kRows, Tile::kColumns>(lanes, a, rows, call.columns, call.column_stride,
                                            columns, call.problem.k, tile);
    });
  }
};

template <class Operands>
void tall_skinny_rows(const TallSkinnyCall& call) {
  PackCall left;
  left.dtype = call.problem.a;
  left.round_to = call.problem.round_to;
  left.bytes = call.args.bytes;
  Operands::dot(left, DotRows{call}, call.column_stride, call.scratch);
}

}  // namespace keel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_ROWS_INL_H
