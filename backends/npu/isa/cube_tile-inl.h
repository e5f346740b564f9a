// The step from a register tile to C: adding up panels of k, then the epilogue. Included once per
// Highway target.
#if defined(KEEL_BACKENDS_NPU_ISA_CUBE_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_NPU_ISA_CUBE_TILE_INL_H
#undef KEEL_BACKENDS_NPU_ISA_CUBE_TILE_INL_H
#else
#define KEEL_BACKENDS_NPU_ISA_CUBE_TILE_INL_H
#endif

#include <algorithm>
#include <cstring>

#include "hwy/highway.h"

#include "keel/backends/npu/isa/cube_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// alpha * v + beta * old + bias, activated: each step rounded, identities left out.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V apply_epilogue(D d, V v, const CubeEpilogue& epilogue, V old, V bias, bool biased) {
  if (epilogue.alpha != 1.0f) v = hn::Set(d, epilogue.alpha) * v;
  if (epilogue.beta == 1.0f) {
    v = v + old;
  } else if (epilogue.beta != 0.0f) {
    v = v + hn::Set(d, epilogue.beta) * old;
  }
  if (biased) v = v + bias;
  if (epilogue.activation == CubeActivation::kRelu) v = hn::IfThenZeroElse(v <= hn::Zero(d), v);
  return v;
}

// One vector of a tile's row: what goes to the partial sums, or to C where the panel is the last.
template <class D>
HWY_INLINE hn::Vec<D> finish_lanes(D d, const TileCall& call, const float* tile,
                                   const float* partial, const float* c, const float* bias) {
  auto v = hn::LoadU(d, tile);
  if (!call.first) v = hn::LoadU(d, partial) + v;
  if (!call.last) return v;
  const auto old = call.epilogue.beta != 0.0f ? hn::LoadU(d, c) : v;
  const auto shift = bias != nullptr ? hn::LoadU(d, bias) : v;
  return apply_epilogue(d, v, call.epilogue, old, shift, bias != nullptr);
}

// The same for the last `count` lanes of a row, through buffers.
template <class D>
HWY_INLINE void finish_rest(D d, const TileCall& call, const float* tile, float* partial, float* c,
                            const float* bias, size_t count) {
#if HWY_TARGET <= HWY_AVX2
  const auto mask = hn::FirstN(d, count);
  const auto part = [&](const float* from) HWY_ATTR { return hn::MaskedLoad(mask, d, from); };
  auto v = part(tile);
  if (!call.first) v = part(partial) + v;
  if (call.last) {
    const bool old = call.epilogue.beta != 0.0f;
    v = apply_epilogue(d, v, call.epilogue, old ? part(c) : v, bias != nullptr ? part(bias) : v,
                       bias != nullptr);
  }
  hn::BlendedStore(v, mask, d, call.last ? c : partial);
#else
  const size_t bytes = count * sizeof(float);
  float lanes[4][hn::MaxLanes(D())] = {};
  std::memcpy(lanes[0], tile, bytes);
  if (!call.first) std::memcpy(lanes[1], partial, bytes);
  if (call.last && call.epilogue.beta != 0.0f) std::memcpy(lanes[2], c, bytes);
  if (bias != nullptr) std::memcpy(lanes[3], bias, bytes);
  const auto v =
      finish_lanes(d, call, lanes[0], lanes[1], lanes[2], bias == nullptr ? nullptr : lanes[3]);
  hn::StoreU(v, d, lanes[0]);
  std::memcpy(call.last ? c : partial, lanes[0], bytes);
#endif
}

inline void finish_tile(const TileCall& call) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const float* bias = call.last ? call.epilogue.bias : nullptr;
  for (size_t i = 0; i < call.rows; ++i) {
    const float* tile = call.tile + i * call.tile_stride;
    float* partial = call.partial == nullptr ? nullptr : call.partial + i * call.partial_stride;
    float* c = call.c + i * call.c_stride;
    float* to = call.last ? c : partial;
    size_t j = 0;
    for (; j + lanes <= call.cols; j += lanes) {
      const auto v =
          finish_lanes(d, call, tile + j, partial + j, c + j, bias == nullptr ? nullptr : bias + j);
      hn::StoreU(v, d, to + j);
    }
    if (j < call.cols) {
      finish_rest(d, call, tile + j, partial + j, c + j, bias == nullptr ? nullptr : bias + j,
                  call.cols - j);
    }
  }
}

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_NPU_ISA_CUBE_TILE_INL_H
