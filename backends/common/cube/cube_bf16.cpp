// The cube on pairs of bf16 along k, with f32 accumulators: 32x32 of C at a time, in four AMX tiles
// or in vectors with AVX512_BF16's dot products. Both round in an order of their own,
// so bits differ from the plain vectors' (the bound does not), and count numbers below 2^-126 as 0,
// operands and sums: there, and where a subnormal meets an infinity (NaN), they leave the bound.
//
// A panel of A is, for each 32 k, two tiles of [16 rows][32 k]; of B, two tiles of [16 pairs of
// k][16 columns][2]. Operands that are stored in f32 or as bytes are rounded on the way there.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <mutex>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/cube/cube_bf16.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/cube/cube_pairs-inl.h"
#include "keel/backends/common/cube/cube_tall_skinny_columns-inl.h"
#include "keel/backends/common/cube/cube_tall_skinny_rows-inl.h"
#include "keel/backends/common/cube/cube_tile-inl.h"
#include "keel/backends/common/vector/host_isa.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace keel::HWY_NAMESPACE {
namespace {

constexpr size_t kPanel = 2 * kTileRows;

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
// Rows of the tile lie `stride` elements apart.
template <int kTile>
HWY_INLINE void load_tile_from(const uint16_t* from, size_t stride) {
  const size_t bytes = stride * sizeof(uint16_t);
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(bytes), "i"(kTile) : "memory");
}
template <int kTile>
HWY_INLINE void store_tile_to(float* to, size_t stride) {
  const size_t bytes = stride * sizeof(float);
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(bytes), "i"(kTile) : "memory");
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

// The sums of 32 x 32 of C are in four tiles, or those of 32 x 16 in two of them.
template <bool kBoth>
HWY_INLINE void clear_tiles() {
  zero_tile<0>();
  if constexpr (kBoth) zero_tile<1>();
  zero_tile<2>();
  if constexpr (kBoth) zero_tile<3>();
}
template <bool kBoth>
HWY_INLINE void store_tiles(float* to, size_t stride) {
  store_tile_to<0>(to, stride);
  if constexpr (kBoth) store_tile_to<1>(to + kTileRows, stride);
  store_tile_to<2>(to + kTileRows * stride, stride);
  if constexpr (kBoth) store_tile_to<3>(to + kTileRows * stride + kTileRows, stride);
}
// Multiplies kTileDepth of k: rows of A that lie `step` elements apart, from `upper` and from
// `lower` on, and two tiles of packed B.
template <bool kBoth>
HWY_INLINE void add_tiles(const uint16_t* upper, const uint16_t* lower, size_t step,
                          const uint16_t* right) {
  load_tile_from<4>(upper, step);
  load_tile_from<6>(right, kTileDepth);
  if constexpr (kBoth) load_tile_from<7>(right + kTileElements, kTileDepth);
  multiply_tiles<0, 4, 6>();
  load_tile_from<5>(lower, step);
  if constexpr (kBoth) multiply_tiles<1, 4, 7>();
  multiply_tiles<2, 5, 6>();
  if constexpr (kBoth) multiply_tiles<3, 5, 7>();
}

// Says whether the second tile of columns would be computed for nobody.
bool fits_one_tile(const TileResult& to) { return to.cols <= kTileRows; }

template <bool kBoth>
HWY_INLINE void multiply_packed(const uint16_t* left, const uint16_t* right, size_t length,
                                const TileResult& to) {
  clear_tiles<kBoth>();
  for (size_t k = 0; k < length; k += kTileDepth) {
    add_tiles<kBoth>(left, left + kTileElements, kTileDepth, right);
    left += 2 * kTileElements;
    right += 2 * kTileElements;
  }
  store_tiles<kBoth>(to.to, to.stride);
}

void multiply_amx(const void* a, const void* b, size_t, size_t length, const TileResult& to) {
  const auto *left = static_cast<const uint16_t*>(a), *right = static_cast<const uint16_t*>(b);
  if (fits_one_tile(to)) return multiply_packed<false>(left, right, length, to);
  multiply_packed<true>(left, right, length, to);
}

// Loads rows of A into tiles from where they are stored.
template <bool kBoth>
HWY_INLINE void multiply_rows_stored(const StoredRows& a, const uint16_t* right, size_t length,
                                     const TileResult& to) {
  const auto* left = static_cast<const uint16_t*>(a.rows);
  clear_tiles<kBoth>();
  size_t k = 0;
  for (; k + kTileDepth <= length; k += kTileDepth) {
    add_tiles<kBoth>(left, left + kTileRows * a.stride, a.stride, right);
    left += kTileDepth;
    right += 2 * kTileElements;
  }
  if (k < length) {
    const auto* rest = static_cast<const uint16_t*>(a.rest);
    add_tiles<kBoth>(rest, rest + kTileElements, kTileDepth, right);
  }
  store_tiles<kBoth>(to.to, to.stride);
}

void multiply_amx_stored(const StoredRows& a, const void* b, size_t, size_t length,
                         const TileResult& to) {
  const auto* right = static_cast<const uint16_t*>(b);
  if (fits_one_tile(to)) return multiply_rows_stored<false>(a, right, length, to);
  multiply_rows_stored<true>(a, right, length, to);
}

// Sixteen rows of A that lie anywhere, of which a step of k is loaded: where they are evenly apart
// from where they are, else from a copy. Copies take turns, so that one is written while the one
// before is still read.
class SpreadTile {
 public:
  SpreadTile(const uint16_t* a, const size_t* rows) : a_(a), rows_(rows), step_(rows[1] - rows[0]) {
    for (size_t r = 2; r < kTileRows; ++r) even_ = even_ && rows[r] - rows[r - 1] == step_;
  }
  // Returns where the step at `at` behind each row's beginning lies.
  HWY_INLINE const uint16_t* rows_at(size_t at) {
    if (even_) return a_ + rows_[0] + at;
    uint16_t* const to = copies_[turn_++ % kCopies];
#pragma GCC unroll 16
    for (size_t r = 0; r < kTileRows; ++r) {
      _mm512_store_si512(to + r * kTileDepth, _mm512_loadu_si512(a_ + rows_[r] + at));
    }
    return to;
  }
  HWY_INLINE size_t stride() const { return even_ ? step_ : kTileDepth; }

 private:
  static constexpr size_t kCopies = 4;
  const uint16_t* a_;
  const size_t* rows_;
  size_t step_, turn_ = 0;
  bool even_ = true;
  alignas(64) uint16_t copies_[kCopies][kTileElements];
};

// Where the steps of k of all runs begin, one after the other.
class StepsOfRuns {
 public:
  explicit StepsOfRuns(const SpreadRows& a) : run_(a.runs), end_(a.runs + a.run_count) {}
  bool ended() const { return run_ == end_; }
  size_t at() const { return run_->at + k_; }
  size_t k() const { return run_->k + k_; }
  void next() {
    k_ += kTileDepth;
    if (k_ < run_->length) return;
    ++run_;
    k_ = 0;
  }

 private:
  const CubeRun* run_;
  const CubeRun* end_;
  size_t k_ = 0;
};

// The rows of a step are copied while the step before is multiplied: a tile that is loaded from
// what has just been written would wait for it.
void multiply_amx_spread(const SpreadRows& a, const void* b, size_t, bool, float* to,
                         size_t stride) {
  const auto* left = static_cast<const uint16_t*>(a.a);
  SpreadTile upper(left, a.rows), lower(left, a.rows + kTileRows);
  clear_tiles<true>();
  StepsOfRuns step(a);
  const uint16_t* above = upper.rows_at(step.at());
  const uint16_t* below = lower.rows_at(step.at());
  while (!step.ended()) {
    const auto* right = static_cast<const uint16_t*>(b) + step.k() * kPanel;
    const uint16_t *next_above = above, *next_below = below;
    step.next();
    load_tile_from<4>(above, upper.stride());
    load_tile_from<6>(right, kTileDepth);
    load_tile_from<7>(right + kTileElements, kTileDepth);
    multiply_tiles<0, 4, 6>();
    load_tile_from<5>(below, lower.stride());
    multiply_tiles<1, 4, 7>();
    if (!step.ended()) {
      next_above = upper.rows_at(step.at());
      next_below = lower.rows_at(step.at());
    }
    multiply_tiles<2, 5, 6>();
    multiply_tiles<3, 5, 7>();
    above = next_above;
    below = next_below;
  }
  store_tiles<true>(to, stride);
}

// A few rows of C: sums += the products of a pair of k, broadcast from A, with vectors of B.
constexpr size_t kRowsAtOnce = 8;

template <size_t kVectors>
struct RowSums {
  __m512 of[kRowsAtOnce][kVectors];
};

// At most kTileDepth of k; A's rows lie `row_step` elements apart. What a tile is padded with is
// left out: sums that begin at +0 stay what they are when it is added.
template <size_t kVectors>
HWY_INLINE void add_steps(RowSums<kVectors>& sums, const uint16_t* left, size_t row_step,
                          const uint16_t* right, size_t depth) {
  for (size_t pair = 0; 2 * pair < depth; ++pair) {
    __m512i b[kVectors];
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v)
      b[v] = _mm512_loadu_si512(right + v * kTileElements + pair * kTileDepth);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRowsAtOnce; ++r) {
      int32_t both;
      std::memcpy(&both, left + r * row_step + 2 * pair, sizeof(both));
      const __m512i a = _mm512_set1_epi32(both);
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) add_pairs(sums.of[r][v], a, b[v]);
    }
  }
}

template <size_t kVectors>
HWY_INLINE void clear(RowSums<kVectors>& sums) {
#pragma GCC unroll 8
  for (auto& row : sums.of) {
#pragma GCC unroll 2
    for (__m512& sum : row) sum = _mm512_setzero_ps();
  }
}

// To rows of the result from row `first` on.
template <size_t kVectors>
HWY_INLINE void store(const RowSums<kVectors>& sums, const TileResult& to, size_t first) {
  __mmask16 columns[kVectors];
#pragma GCC unroll 2
  for (size_t v = 0; v < kVectors; ++v) {
    const size_t before = v * kTileRows;
    columns[v] = static_cast<__mmask16>(low_bits(to.cols < before ? 0 : to.cols - before));
  }
  float* row = to.to + first * to.stride;
#pragma GCC unroll 8
  for (size_t r = 0; r < kRowsAtOnce; ++r, row += to.stride) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v)
      _mm512_mask_storeu_ps(row + v * kTileRows, columns[v], sums.of[r][v]);
  }
}

// Returns the place in packed A at which row i begins.
constexpr size_t packed_row(size_t i) {
  return i / kTileRows * kTileElements + i % kTileRows * kTileDepth;
}

// Says whether the second vector of a tile's columns would be computed for nobody.
bool fits_one_vector(const TileResult& to) { return to.cols <= kTileRows; }

template <size_t kVectors>
HWY_INLINE void multiply_packed_rows(const uint16_t* a, const uint16_t* b, size_t length,
                                     const TileResult& to) {
  for (size_t i = 0; i < to.rows; i += kRowsAtOnce) {
    const uint16_t* left = a + packed_row(i);
    const uint16_t* right = b;
    RowSums<kVectors> sums;
    clear(sums);
    size_t k = 0;
    for (; k + kTileDepth <= length; k += kTileDepth) {
      add_steps(sums, left, kTileDepth, right, kTileDepth);
      left += 2 * kTileElements;
      right += 2 * kTileElements;
    }
    if (k < length) add_steps(sums, left, kTileDepth, right, length - k);
    store(sums, to, i);
  }
}

void multiply_vectors(const void* a, const void* b, size_t, size_t length, const TileResult& to) {
  const auto *left = static_cast<const uint16_t*>(a), *right = static_cast<const uint16_t*>(b);
  if (fits_one_vector(to)) return multiply_packed_rows<1>(left, right, length, to);
  multiply_packed_rows<2>(left, right, length, to);
}

template <size_t kVectors>
HWY_INLINE void multiply_stored_rows(const StoredRows& a, const uint16_t* b, size_t length,
                                     const TileResult& to) {
  for (size_t i = 0; i < to.rows; i += kRowsAtOnce) {
    const auto* left = static_cast<const uint16_t*>(a.rows) + i * a.stride;
    const uint16_t* right = b;
    RowSums<kVectors> sums;
    clear(sums);
    size_t k = 0;
    for (; k + kTileDepth <= length; k += kTileDepth) {
      add_steps(sums, left, a.stride, right, kTileDepth);
      left += kTileDepth;
      right += 2 * kTileElements;
    }
    if (k < length && a.rest == nullptr) add_steps(sums, left, a.stride, right, length - k);
    if (k < length && a.rest != nullptr) {
      add_steps(sums, static_cast<const uint16_t*>(a.rest) + packed_row(i), kTileDepth, right,
                length - k);
    }
    store(sums, to, i);
  }
}

void multiply_vectors_stored(const StoredRows& a, const void* b, size_t, size_t length,
                             const TileResult& to) {
  const auto* right = static_cast<const uint16_t*>(b);
  if (fits_one_vector(to)) return multiply_stored_rows<1>(a, right, length, to);
  multiply_stored_rows<2>(a, right, length, to);
}

float widened(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// The same without tiles: element (i, k) of A is at_a(i, k).
template <class A>
void multiply_loops(const A& at_a, const void* b, size_t length, const TileResult& to) {
  const auto* right = static_cast<const uint16_t*>(b);
  for (size_t i = 0; i < kPanel; ++i) {
    for (size_t j = 0; j < kPanel; ++j) {
      float& sum = to.to[i * to.stride + j];
      sum = 0.0f;
      for (size_t k = 0; k < length; ++k) {
        const size_t step_at = k / kTileDepth * 2 * kTileElements, p = k % kTileDepth;
        const size_t at_b = step_at + j / kTileRows * kTileElements + p / 2 * kTileDepth +
                            j % kTileRows * 2 + p % 2;
        sum += widened(at_a(i, k)) * widened(right[at_b]);
      }
    }
  }
}

uint16_t packed_element(const void* a, size_t i, size_t k) {
  return static_cast<const uint16_t*>(
      a)[k / kTileDepth * 2 * kTileElements + packed_row(i) + k % kTileDepth];
}

void multiply_plain(const void* a, const void* b, size_t, size_t length, const TileResult& to) {
  multiply_loops([a](size_t i, size_t k) { return packed_element(a, i, k); }, b, length, to);
}

void multiply_plain_stored(const StoredRows& a, const void* b, size_t, size_t length,
                           const TileResult& to) {
  const size_t whole = length / kTileDepth * kTileDepth;
  const auto at_a = [&](size_t i, size_t k) {
    return k < whole ? static_cast<const uint16_t*>(a.rows)[i * a.stride + k]
                     : packed_element(a.rest, i, k - whole);
  };
  multiply_loops(at_a, b, length, to);
}

void multiply_plain_spread(const SpreadRows& a, const void* b, size_t, bool, float* to,
                           size_t stride) {
  const auto* left = static_cast<const uint16_t*>(a.a);
  size_t length = 0;
  for (size_t i = 0; i < a.run_count; ++i)
    length = std::max(length, a.runs[i].k + a.runs[i].length);
  const auto at_a = [&](size_t row, size_t k) {
    const CubeRun* run = a.runs;
    while (k >= run->k + run->length) ++run;
    return left[a.rows[row] + run->at + k - run->k];
  };
  multiply_loops(at_a, b, length, {to, stride, kPanel, kPanel});
}

// Parts of k by kernels that have registers for the sums of one: those of the others lie in a stack
// of tiles, of which the first is where the sums go.
template <auto kMultiply>
void multiply_parts(const PartsCall& call) {
  size_t complete = 0;
  const auto tile = [&](size_t i) {
    return i == 0 ? call.to : call.waiting + (i - 1) * kPanel * kPanel;
  };
  const auto stride = [&](size_t i) { return i == 0 ? call.stride : kPanel; };
  for (size_t part = 0; part < call.parts; ++part, ++complete) {
    const char* a = static_cast<const char*>(call.a) + part * call.a_step;
    const char* b = static_cast<const char*>(call.b) + part * call.b_step;
    kMultiply(a, b, kPanel, call.length, {tile(complete), stride(complete), call.rows, kPanel});
    for (size_t i = call.additions[part]; i > 0; --i, --complete) {
      finish_tile({tile(complete), stride(complete), call.rows, kPanel, false, tile(complete - 1),
                   stride(complete - 1)});
    }
  }
}

void round_by_instruction(CubeKernels& kernels) {
  kernels.pack_a = &pack_rows<RoundByInstruction>;
  kernels.pack_b = &pack_pairs<RoundByInstruction>;
}

}  // namespace

void fill_bf16_kernels(CubeKernels& kernels, PairsOfBf16 kind) {
  kernels.rows = kPanel;
  kernels.cols = kPanel;
  kernels.packed_size = sizeof(uint16_t);
  kernels.k_multiple = kTileDepth;
  kernels.stored_multiple = kPanel;
  kernels.stored_k_multiple = kTileDepth;
  kernels.pack_a = &pack_rows<RoundByBits>;
  kernels.pack_b = &pack_pairs<RoundByBits>;
  kernels.finish = &finish_tile;
  switch (kind) {
    case PairsOfBf16::kTiles:
      kernels.multiply = &multiply_amx;
      kernels.multiply_stored = &multiply_amx_stored;
      kernels.multiply_spread = &multiply_amx_spread;
      kernels.multiply_parts = &multiply_parts<&multiply_amx>;
      kernels.begin = &begin_tiles;
      kernels.end = &end_tiles;
      if (vector::has_bf16_dot_products()) round_by_instruction(kernels);
      return;
    case PairsOfBf16::kVectors:
      kernels.multiply = &multiply_vectors;
      kernels.multiply_stored = &multiply_vectors_stored;
      kernels.stored_multiple = kRowsAtOnce;
      kernels.stored_k_multiple = 2;
      kernels.stores_any_columns = true;
      kernels.multiply_parts = &multiply_parts<&multiply_vectors>;
      round_by_instruction(kernels);
      kernels.pack_columns = &PairOperands::pack_columns;
      kernels.column_multiple = kTileDepth;
      kernels.tall_skinny_rows = &tall_skinny_rows<PairOperands>;
      kernels.tall_skinny_columns = &tall_skinny_columns<PairOperands>;
      kernels.flat_rows = &flat_rows<PairOperands>;
      return;
    case PairsOfBf16::kLoops:
      kernels.multiply = &multiply_plain;
      kernels.multiply_stored = &multiply_plain_stored;
      kernels.multiply_spread = &multiply_plain_spread;
      kernels.multiply_parts = &multiply_parts<&multiply_plain>;
      return;
  }
}

}  // namespace keel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace keel {

#if HWY_TARGETS & HWY_AVX3
const CubeKernels* bf16_cube_kernels(PairsOfBf16 kind) {
  static CubeKernels of_kind[3];
  static std::once_flag filled[3];
  CubeKernels& kernels = of_kind[static_cast<size_t>(kind)];
  // Once: other threads multiply by them.
  std::call_once(filled[static_cast<size_t>(kind)],
                 [&] { N_AVX3::fill_bf16_kernels(kernels, kind); });
  return &kernels;
}
#else
const CubeKernels* bf16_cube_kernels(PairsOfBf16) { return nullptr; }
#endif

}  // namespace keel
#endif
