// Transposes of small square blocks held in vectors of 32-bit lanes. Included once per Highway
// target.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_TRANSPOSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_TRANSPOSE_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_TRANSPOSE_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_TRANSPOSE_INL_H
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
// r[i][j] = r[j][i] for 16 vectors of 16 lanes.
HWY_INLINE void transpose_lanes(hn::Vec<hn::ScalableTag<float>>* rows) {
  __m512 a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(rows[i].raw, rows[i + 1].raw);
    a[i + 1] = _mm512_unpackhi_ps(rows[i].raw, rows[i + 1].raw);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      const __m512d even = _mm512_castps_pd(a[i + j]), odd = _mm512_castps_pd(a[i + j + 2]);
      b[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(even, odd));
      b[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(even, odd));
    }
  }
  // b[4g + c]: in 128-bit block q, rows 4g.. of column 4q + c.
  for (int c = 0; c < 4; ++c) {
    const __m512 low01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88);
    const __m512 high01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xdd);
    const __m512 low23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x88);
    const __m512 high23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xdd);
    rows[c].raw = _mm512_shuffle_f32x4(low01, low23, 0x88);
    rows[c + 8].raw = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    rows[c + 4].raw = _mm512_shuffle_f32x4(high01, high23, 0x88);
    rows[c + 12].raw = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}
#elif HWY_TARGET != HWY_SCALAR
// Does the same for 4 vectors of 4 lanes, in each 128-bit block.
template <class D>
HWY_INLINE void transpose_4x4(D d, hn::Vec<D>* rows) {
  const hn::Repartition<double, D> dd;
  const auto a = hn::InterleaveLower(d, rows[0], rows[1]);
  const auto b = hn::InterleaveUpper(d, rows[0], rows[1]);
  const auto e = hn::InterleaveLower(d, rows[2], rows[3]);
  const auto f = hn::InterleaveUpper(d, rows[2], rows[3]);
  const auto wide = [&](hn::Vec<D> v) HWY_ATTR { return hn::BitCast(dd, v); };
  rows[0] = hn::BitCast(d, hn::InterleaveLower(dd, wide(a), wide(e)));
  rows[1] = hn::BitCast(d, hn::InterleaveUpper(dd, wide(a), wide(e)));
  rows[2] = hn::BitCast(d, hn::InterleaveLower(dd, wide(b), wide(f)));
  rows[3] = hn::BitCast(d, hn::InterleaveUpper(dd, wide(b), wide(f)));
}
#endif

using BlockTag = hn::ScalableTag<float>;
// The side of the blocks that transpose_block works on.
constexpr size_t kBlockSide = hn::MaxLanes(BlockTag());

HWY_INLINE void transpose_block(hn::Vec<BlockTag>* rows) {
#if HWY_TARGET == HWY_AVX3
  transpose_lanes(rows);
#elif HWY_TARGET == HWY_SCALAR
  (void)rows;
#else
  const BlockTag d;
  transpose_4x4(d, rows);
#if HWY_TARGET == HWY_AVX2
  transpose_4x4(d, rows + 4);
  for (size_t i = 0; i < 4; ++i) {
    const auto left = rows[i], right = rows[i + 4];
    rows[i] = hn::ConcatLowerLower(d, right, left);
    rows[i + 4] = hn::ConcatUpperUpper(d, right, left);
  }
#endif
#endif
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_TRANSPOSE_INL_H
