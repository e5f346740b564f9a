// Packing of an operand into panels of f32. Included once per Highway target.
#if defined(KEEL_BACKENDS_COMMON_CUBE_CUBE_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_CUBE_CUBE_PACK_INL_H
#undef KEEL_BACKENDS_COMMON_CUBE_CUBE_PACK_INL_H
#else
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_PACK_INL_H
#endif

#include <algorithm>

#include "hwy/highway.h"

#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/vector/loaders-inl.h"
#include "keel/backends/common/vector/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace hv = vector::HWY_NAMESPACE;

// How early operands are called for: neither order is one that processors foresee.
constexpr size_t kRowsAhead = 12, kBytesAhead = 256;

// One panel whose elements lie side by side for each k. Stores are whole vectors: what they spill
// over the panel's edge is overwritten by the next k (kPackSlack at the very end).
template <class Loader>
HWY_INLINE void pack_across(const Loader& loader, const PackCall& call, size_t begin, size_t count,
                            float* to) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto* src = static_cast<const typename Loader::Element*>(call.src);
  for (size_t k = 0; k < call.length; ++k) {
    const auto* from = src + call.row_at(call.k0 + k) + begin;
    const auto* ahead =
        src + call.row_at(call.k0 + std::min(k + kRowsAhead, call.length - 1)) + begin;
    float* row = to + k * call.width;
    for (size_t b = 0; b < count * sizeof(*from); b += 64) {
      __builtin_prefetch(reinterpret_cast<const char*>(ahead) + b);
    }
    size_t j = 0;
    for (; j + lanes <= count; j += lanes) hn::StoreU(loader.load(d, from + j), d, row + j);
    if (j < count) {
      hn::StoreU(hv::load_part(loader, d, from + j, count - j), d, row + j);
      j += lanes;
    }
    for (; j < call.width; j += lanes) hn::StoreU(hn::Zero(d), d, row + j);
  }
}

// One panel whose rows lie along k: blocks are transposed in registers. Only the first block of a
// width may spill over its edge, where the next k overwrites that.
template <class Loader>
HWY_INLINE void pack_along(const Loader& loader, const PackCall& call, size_t begin, size_t count,
                           float* to) {
  const hv::BlockTag d;
  const auto* src = static_cast<const typename Loader::Element*>(call.src) + call.k0;
  const size_t stride = call.dst_stride == 0 ? call.width : call.dst_stride;
  hn::Vec<hv::BlockTag> block[hv::kBlockSide];
  for (size_t k = 0; k < call.length; k += hv::kBlockSide) {
    const size_t depth = std::min(hv::kBlockSide, call.length - k);
    for (size_t j = 0; j < call.width; j += hv::kBlockSide) {
      for (size_t i = 0; i < hv::kBlockSide; ++i) {
        if (j + i >= count) {
          block[i] = hn::Zero(d);
        } else {
          const auto* from = src + call.row_at(begin + j + i) + k;
          __builtin_prefetch(reinterpret_cast<const char*>(from) + kBytesAhead);
          block[i] = depth == hv::kBlockSide ? loader.load(d, from)
                                             : hv::load_part(loader, d, from, depth);
        }
      }
      hv::transpose_block(block);
      float* at = to + k * stride + j;
      if (j == 0 || j + hv::kBlockSide <= call.width) {
        for (size_t i = 0; i < depth; ++i) hn::StoreU(block[i], d, at + i * stride);
      } else {
        for (size_t i = 0; i < depth; ++i) {
          hn::BlendedStore(block[i], hn::FirstN(d, call.width - j), d, at + i * stride);
        }
      }
    }
  }
}

template <class Loader>
HWY_INLINE void pack_all(const Loader& loader, const PackCall& call) {
  auto* to = static_cast<float*>(call.dst);
  for (size_t i = 0; i < call.count; i += call.width) {
    const size_t count = std::min(call.width, call.count - i);
    if (call.k_contiguous) {
      pack_along(loader, call, call.first + i, count, to);
    } else {
      pack_across(loader, call, call.first + i, count, to);
    }
    to += call.width * call.length;
  }
}

struct PackWith {
  const PackCall& call;
  template <class Loader>
  HWY_INLINE void operator()(const Loader& loader) const {
    pack_all(loader, call);
  }
};

inline void pack_panels(const PackCall& call) {
  hv::with_loader(call.dtype, call.round_to, call.bytes, PackWith{call});
}

}  // namespace keel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_PACK_INL_H
