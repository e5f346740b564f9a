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

// One panel whose elements lie side by side for each k. Loads and stores are whole vectors where
// something follows: what they spill over the panel's edge is overwritten by the next k, or by the
// next panel (kPackSlack at the very end).
template <class Loader>
HWY_INLINE void pack_across(const Loader& loader, const PackCall& call, size_t begin, size_t count,
                            float* to) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto* src = static_cast<const typename Loader::Element*>(call.src);
  const size_t in_vectors = (count + lanes - 1) / lanes * lanes;
  const bool whole = begin + in_vectors <= call.first + call.count;
  const size_t loaded = whole ? in_vectors : count;
  for (size_t k = 0; k < call.length; ++k) {
    const auto* from = src + call.row_at(call.k0 + k) + begin;
    const auto* ahead =
        src + call.row_at(call.k0 + std::min(k + kRowsAhead, call.length - 1)) + begin;
    float* row = to + k * call.width;
    for (size_t b = 0; b < count * sizeof(*from); b += 64) {
      __builtin_prefetch(reinterpret_cast<const char*>(ahead) + b);
    }
    size_t j = 0;
    for (; j + lanes <= loaded; j += lanes) hn::StoreU(loader.load(d, from + j), d, row + j);
    if (j < loaded) {
      hn::StoreU(hv::load_part(loader, d, from + j, loaded - j), d, row + j);
      j += lanes;
    }
    for (; j < call.width; j += lanes) hn::StoreU(hn::Zero(d), d, row + j);
  }
}

// The rows of a panel that lie along k are transposed in registers, a block of them at a time.
template <class Loader>
struct BlockAlong {
  using Element = typename Loader::Element;
  using Block = hn::Vec<hv::BlockTag>[hv::kBlockSide];

  const Loader& loader;
  const Element* rows[hv::kBlockSide];
  size_t count;  // of the rows that are there; the others are zeros

  // Row i goes to to[k * stride + i]. At most `width` of the rows are stored.
  HWY_INLINE void pack(size_t length, float* to, size_t stride, size_t width) const {
    const hv::BlockTag d;
    Block block;
    size_t k = 0;
    for (; k + hv::kBlockSide <= length; k += hv::kBlockSide, to += hv::kBlockSide * stride) {
#pragma GCC unroll 16
      for (size_t i = 0; i < hv::kBlockSide; ++i) {
        const Element* from = rows[i] + k;
        __builtin_prefetch(reinterpret_cast<const char*>(from) + kBytesAhead);
        block[i] = loader.load(d, from);
      }
      transpose(block);
      store(block, hv::kBlockSide, to, stride, width);
    }
    if (k == length) return;
    for (size_t i = 0; i < hv::kBlockSide; ++i)
      block[i] = hv::load_part(loader, d, rows[i] + k, length - k);
    transpose(block);
    store(block, length - k, to, stride, width);
  }

 private:
  HWY_INLINE void transpose(Block& block) const {
    if (count < hv::kBlockSide) {
#pragma GCC unroll 16
      for (size_t i = 0; i < hv::kBlockSide; ++i) {
        if (i >= count) block[i] = hn::Zero(hv::BlockTag());
      }
    }
    hv::transpose_block(block);
  }

  static HWY_INLINE void store(const Block& block, size_t depth, float* to, size_t stride,
                               size_t width) {
    const hv::BlockTag d;
    if (width >= hv::kBlockSide && depth == hv::kBlockSide) {
#pragma GCC unroll 16
      for (size_t i = 0; i < hv::kBlockSide; ++i) hn::StoreU(block[i], d, to + i * stride);
      return;
    }
    for (size_t i = 0; i < depth; ++i) {
      width >= hv::kBlockSide ? hn::StoreU(block[i], d, to + i * stride)
                              : hv::store_part(d, block[i], to + i * stride, width);
    }
  }
};

// One panel whose rows lie along k. The first block of a width may spill over its edge, where the
// next k overwrites that.
template <class Loader>
HWY_INLINE void pack_along(const Loader& loader, const PackCall& call, size_t begin, size_t count,
                           float* to) {
  const auto* src = static_cast<const typename Loader::Element*>(call.src) + call.k0;
  const size_t stride = call.dst_stride == 0 ? call.width : call.dst_stride;
  for (size_t j = 0; j < call.width; j += hv::kBlockSide) {
    const size_t present = count <= j ? 0 : std::min(hv::kBlockSide, count - j);
    // A row that is spilled may be any row, but those that the panel lacks are zeros.
    const bool full = j + present == call.width;
    BlockAlong<Loader> block{loader, {}, full ? hv::kBlockSide : present};
    for (size_t i = 0; i < hv::kBlockSide; ++i)
      block.rows[i] = src + call.row_at(begin + (i < present ? j + i : 0));
    block.pack(call.length, to + j, stride, j == 0 ? hv::kBlockSide : call.width - j);
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
