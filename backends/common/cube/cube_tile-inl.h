// The step from a register tile to C, in which the panels of k are added up. Included once per
// Highway target.
#if defined(KEEL_BACKENDS_COMMON_CUBE_CUBE_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_CUBE_CUBE_TILE_INL_H
#undef KEEL_BACKENDS_COMMON_CUBE_CUBE_TILE_INL_H
#else
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_TILE_INL_H
#endif

#include "hwy/highway.h"

#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/vector/loaders-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace hv = vector::HWY_NAMESPACE;

// The last `count` lanes of a row.
template <class D>
HWY_INLINE void finish_rest(D d, const TileCall& call, const float* tile, float* c, size_t count) {
#if HWY_TARGET <= HWY_AVX2
  const auto mask = hn::FirstN(d, count);
  auto v = hn::MaskedLoad(mask, d, tile);
  if (!call.first) v = hn::MaskedLoad(mask, d, c) + v;
  hv::store_part(d, v, c, count);
#else
  static_cast<void>(d);
  for (size_t j = 0; j < count; ++j) c[j] = call.first ? tile[j] : c[j] + tile[j];
#endif
}

inline void finish_tile(const TileCall& call) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  // Rows that lie one behind the other on both sides are one long row.
  const bool joined = call.tile_stride == call.cols && call.c_stride == call.cols;
  const size_t rows = joined ? 1 : call.rows, cols = joined ? call.rows * call.cols : call.cols;
  for (size_t i = 0; i < rows; ++i) {
    const float* tile = call.tile + i * call.tile_stride;
    float* c = call.c + i * call.c_stride;
    size_t j = 0;
    for (; j + lanes <= cols; j += lanes) {
      auto v = hn::LoadU(d, tile + j);
      if (!call.first) v = hn::LoadU(d, c + j) + v;
      hn::StoreU(v, d, c + j);
    }
    if (j < cols) finish_rest(d, call, tile + j, c + j, cols - j);
  }
}

}  // namespace keel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_TILE_INL_H
