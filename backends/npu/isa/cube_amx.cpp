// The cube on AMX tiles: bf16 operands, f32 accumulators, 32x32 of C at a time in four tiles. The
// tiles flush subnormals and round in an order of their own, so bits differ from the vectors' (the
// bound does not).
//
// A panel of A is, for each 32 k, two tiles of [16 rows][32 k]; of B, two tiles of [16 pairs of
// k][16 columns][2].
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/npu/isa/cube_amx.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/npu/isa/cube_kernels.h"
#include "keel/backends/npu/isa/transpose-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
namespace {

constexpr size_t kTileRows = 16, kTileDepth = 32, kTileElements = kTileRows * kTileDepth;
constexpr size_t kPanel = 2 * kTileRows;

HWY_INLINE __mmask32 low_bits(size_t count) {
  return count >= 32 ? 0xffffffffu : (1u << count) - 1u;
}

// 16 pairs of k for one row or column: `depth` elements along k.
HWY_INLINE __m512i pairs_along(const uint16_t* from, size_t depth) {
  return _mm512_maskz_loadu_epi16(low_bits(depth), from);
}

// One pair of k for up to 16 rows or columns that lie side by side.
HWY_INLINE __m512i pair_across(const uint16_t* from, size_t stride, size_t count, size_t depth) {
  const auto mask = static_cast<__mmask16>(low_bits(count) & 0xffffu);
  const __m256i even = depth > 0 ? _mm256_maskz_loadu_epi16(mask, from) : _mm256_setzero_si256();
  const __m256i odd =
      depth > 1 ? _mm256_maskz_loadu_epi16(mask, from + stride) : _mm256_setzero_si256();
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

// A tile's 16 vectors: along k, one per row or column; across, one per pair of k.
HWY_INLINE void load_tile(const PackCall& call, size_t first, size_t count, size_t k, size_t depth,
                          hn::Vec<BlockTag>* tile) {
  const auto* src = static_cast<const uint16_t*>(call.src);
  for (size_t i = 0; i < kTileRows; ++i) {
    __m512i v = _mm512_setzero_si512();
    if (call.k_contiguous) {
      if (i < count) v = pairs_along(src + (first + i) * call.stride + k, depth);
    } else if (2 * i < depth && count > 0) {
      v = pair_across(src + (k + 2 * i) * call.stride + first, call.stride, count, depth - 2 * i);
    }
    tile[i].raw = _mm512_castsi512_ps(v);
  }
}

// kByPair: a tile's rows are pairs of k (B), else rows of A.
template <bool kByPair>
void pack_tiles(const PackCall& call) {
  auto* to = static_cast<float*>(call.dst);
  hn::Vec<BlockTag> tile[kTileRows];
  for (size_t i = 0; i < call.count; i += kPanel) {
    for (size_t k = 0; k < call.length; k += kTileDepth) {
      const size_t depth = std::min(kTileDepth, call.length - k);
      for (size_t half = 0; half < 2; ++half) {
        const size_t begin = i + half * kTileRows;
        const size_t count = begin < call.count ? std::min(kTileRows, call.count - begin) : 0;
        load_tile(call, call.first + begin, count, call.k0 + k, depth, tile);
        if (call.k_contiguous == kByPair) transpose_block(tile);
        for (size_t r = 0; r < kTileRows; ++r, to += 16) _mm512_storeu_ps(to, tile[r].raw);
      }
    }
  }
}

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// In assembly, because neither the intrinsics' memory operands nor the tile registers are known to
// the compiler.
template <int kTile>
HWY_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile>
HWY_INLINE void load_tile_from(const uint16_t* from) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(64L), "i"(kTile) : "memory");
}
template <int kTile>
HWY_INLINE void store_tile_to(float* to) {
  constexpr long kStride = kPanel * sizeof(float);
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(kStride), "i"(kTile) : "memory");
}
template <int kSum, int kA, int kB>
HWY_INLINE void multiply_tiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}

void begin_tiles() {
  const TileConfig config;
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}
void end_tiles() { asm volatile("tilerelease" : : : "memory"); }

void multiply_amx(const void* a, const void* b, size_t length, float* tile) {
  const auto* left = static_cast<const uint16_t*>(a);
  const auto* right = static_cast<const uint16_t*>(b);
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
  for (size_t k = 0; k < length; k += kTileDepth) {
    load_tile_from<4>(left);
    load_tile_from<6>(right);
    load_tile_from<7>(right + kTileElements);
    multiply_tiles<0, 4, 6>();
    load_tile_from<5>(left + kTileElements);
    multiply_tiles<1, 4, 7>();
    multiply_tiles<2, 5, 6>();
    multiply_tiles<3, 5, 7>();
    left += 2 * kTileElements;
    right += 2 * kTileElements;
  }
  store_tile_to<0>(tile);
  store_tile_to<1>(tile + kTileRows);
  store_tile_to<2>(tile + kTileRows * kPanel);
  store_tile_to<3>(tile + kTileRows * kPanel + kTileRows);
}

float widened(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// The same on the same panels, without tiles.
void multiply_plain(const void* a, const void* b, size_t length, float* tile) {
  const auto* left = static_cast<const uint16_t*>(a);
  const auto* right = static_cast<const uint16_t*>(b);
  std::fill(tile, tile + kPanel * kPanel, 0.0f);
  for (size_t i = 0; i < kPanel; ++i) {
    for (size_t j = 0; j < kPanel; ++j) {
      float& sum = tile[i * kPanel + j];
      for (size_t k = 0; k < length; ++k) {
        const size_t slab = k / kTileDepth * 2 * kTileElements, p = k % kTileDepth;
        const size_t at_a = slab + i / kTileRows * kTileElements + i % kTileRows * kTileDepth + p;
        const size_t at_b =
            slab + j / kTileRows * kTileElements + p / 2 * kTileDepth + j % kTileRows * 2 + p % 2;
        sum += widened(left[at_a]) * widened(right[at_b]);
      }
    }
  }
}

}  // namespace

void fill_amx_kernels(CubeKernels& kernels, bool emulated) {
  kernels = vector_cube_kernels();  // for the finishing step
  kernels.rows = kPanel;
  kernels.cols = kPanel;
  kernels.packed_size = sizeof(uint16_t);
  kernels.k_multiple = kTileDepth;
  kernels.pack_a = &pack_tiles<false>;
  kernels.pack_b = &pack_tiles<true>;
  kernels.multiply = emulated ? &multiply_plain : &multiply_amx;
  kernels.begin = emulated ? nullptr : &begin_tiles;
  kernels.end = emulated ? nullptr : &end_tiles;
  kernels.skinny_rows = nullptr;
  kernels.skinny_columns = nullptr;
  kernels.flat_rows = nullptr;
}

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace keel::npu {

#if HWY_TARGETS & HWY_AVX3
const CubeKernels* amx_cube_kernels(bool emulated) {
  static CubeKernels on_tiles, in_loops;
  CubeKernels& kernels = emulated ? in_loops : on_tiles;
  N_AVX3::fill_amx_kernels(kernels, emulated);
  return &kernels;
}
#else
const CubeKernels* amx_cube_kernels(bool) { return nullptr; }
#endif

}  // namespace keel::npu
#endif
