// Operands as pairs of bf16 along k, 16 pairs in a vector of AVX-512: loaded, rounded on the way
// where they are stored in f32 or as bytes, packed into tiles, and as lanes of the kernels for few
// columns or rows. Included once per Highway target.
#if defined(KEEL_BACKENDS_COMMON_CUBE_CUBE_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_CUBE_CUBE_PAIRS_INL_H
#undef KEEL_BACKENDS_COMMON_CUBE_CUBE_PAIRS_INL_H
#else
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_PAIRS_INL_H
#endif

#include <algorithm>
#include <type_traits>

#include "hwy/highway.h"

#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/cube/cube_tall_skinny-inl.h"
#include "keel/backends/common/vector/loaders-inl.h"
#include "keel/backends/common/vector/transpose-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace keel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace hv = vector::HWY_NAMESPACE;

constexpr size_t kTileRows = 16, kTileDepth = 32, kTileElements = kTileRows * kTileDepth;
constexpr size_t kTileBytesAhead = 256;  // how early rows are called for

HWY_INLINE __mmask32 low_bits(size_t count) {
  return count >= 32 ? 0xffffffffu : (1u << count) - 1u;
}

// The first 16 of a vector's halves, each with its counterpart of the last 16.
HWY_INLINE __m512i paired(__m512i in_line) {
  alignas(64) static constexpr uint16_t kOrder[] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                    21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                    11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), in_line);
}

// Rounding by integer arithmetic, on any processor with AVX-512.
struct RoundByBits {
  // The 16 of `low`, then the 16 of `high`.
  static HWY_INLINE __m512i in_line(LaneVec low, LaneVec high) {
    const __m512i first = _mm512_castsi256_si512(_mm512_cvtepi32_epi16(halves(low)));
    return _mm512_inserti64x4(first, _mm512_cvtepi32_epi16(halves(high)), 1);
  }
  // Pairs: each of `even` with that of `odd`.
  static HWY_INLINE __m512i in_pairs(LaneVec even, LaneVec odd) {
    return _mm512_or_si512(halves(even), _mm512_slli_epi32(halves(odd), 16));
  }

 private:
  // In the lower half of each lane.
  static HWY_INLINE __m512i halves(LaneVec v) {
    return _mm512_srli_epi32(hv::BFloat16Codec::rounded_bits(FloatTag(), v).raw, 16);
  }
};

// The same by the instruction of AVX512_BF16, which takes subnormals for zero, as the products do.
struct RoundByInstruction {
  static HWY_INLINE __m512i in_line(LaneVec low, LaneVec high) {
    return hv::BFloat16Codec::rounded_by_instruction(low.raw, high.raw);
  }
  static HWY_INLINE __m512i in_pairs(LaneVec even, LaneVec odd) {
    return paired(in_line(even, odd));
  }
};

// 16 pairs: of 32 elements along k for one row or column, of which `depth` are there; or of a k and
// the next, or of the last k and zeros, for up to 16 rows or columns side by side.
struct StoredPairs {
  using Element = uint16_t;
  HWY_INLINE __m512i along(const uint16_t* from, size_t depth) const {
    return _mm512_maskz_loadu_epi16(low_bits(depth), from);
  }
  HWY_INLINE __m512i across(const uint16_t* first, const uint16_t* second, size_t count) const {
    return paired(
        _mm512_inserti64x4(_mm512_castsi256_si512(part(first, count)), part(second, count), 1));
  }
  HWY_INLINE __m512i across_last(const uint16_t* from, size_t count) const {
    return _mm512_cvtepu16_epi32(part(from, count));
  }

 private:
  static HWY_INLINE __m256i part(const uint16_t* from, size_t count) {
    if (count >= 16) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm256_maskz_loadu_epi16(static_cast<__mmask16>(low_bits(count)), from);
  }
};

template <class Loader, class Round>
struct RoundedPairs {
  using Element = typename Loader::Element;
  HWY_INLINE __m512i along(const Element* from, size_t depth) const {
    const LaneVec low = part(from, std::min<size_t>(depth, 16));
    return Round::in_line(low, depth > 16 ? part(from + 16, depth - 16) : hn::Zero(FloatTag()));
  }
  HWY_INLINE __m512i across(const Element* first, const Element* second, size_t count) const {
    return Round::in_pairs(part(first, count), part(second, count));
  }
  HWY_INLINE __m512i across_last(const Element* from, size_t count) const {
    return Round::in_pairs(part(from, count), hn::Zero(FloatTag()));
  }

  Loader loader;

 private:
  HWY_INLINE LaneVec part(const Element* from, size_t count) const {
    return count >= 16 ? loader.load(FloatTag(), from)
                       : hv::load_part(loader, FloatTag(), from, count);
  }
};

template <class Round, class F>
struct WithRoundedPairs {
  const F& f;
  template <class Loader>
  HWY_INLINE void operator()(const Loader& loader) const {
    f(RoundedPairs<Loader, Round>{loader});
  }
};

// Calls f(pairs) for operands as stored. REQUIRES bf16, f32, or u8 with a map.
template <class Round, class F>
HWY_INLINE void with_pairs(DType dtype, const vector::ByteMap* bytes, const F& f) {
  if (dtype == bf16) return f(StoredPairs{});
  const WithRoundedPairs<Round, F> rounded{f};
  if (dtype == f32) return rounded(hv::FloatLoader(nullptr));
  hv::with_bytes(bytes, rounded);
}

// The vectors of a whole tile. row_at(i): where row i of the operand as stored begins, those from
// the tile's first on.
template <class Pairs, class RowAt>
HWY_INLINE void load_whole_tile(const Pairs& pairs, bool k_contiguous, const RowAt& row_at,
                                hn::Vec<hv::BlockTag>* tile) {
  if (k_contiguous) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kTileRows; ++i) {
      const auto* from = row_at(i);
      __builtin_prefetch(reinterpret_cast<const char*>(from) + kTileBytesAhead);
      tile[i].raw = _mm512_castsi512_ps(pairs.along(from, kTileDepth));
    }
    return;
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < kTileRows; ++i) {
    tile[i].raw = _mm512_castsi512_ps(pairs.across(row_at(2 * i), row_at(2 * i + 1), kTileRows));
  }
}

// A tile's 16 vectors: along k, one per row or column; across, one per pair of k.
template <class Pairs>
HWY_INLINE void load_tile(const Pairs& pairs, const PackCall& call, size_t first, size_t count,
                          size_t k, size_t depth, hn::Vec<hv::BlockTag>* tile) {
  const auto* src = static_cast<const typename Pairs::Element*>(call.src);
  if (count == kTileRows && depth == kTileDepth) {
    const size_t row = call.k_contiguous ? first : k;
    const auto* from = src + (call.k_contiguous ? k : first);
    if (call.rows == nullptr) {
      from += row * call.stride;
      const auto in_line = [&](size_t i) { return from + i * call.stride; };
      return load_whole_tile(pairs, call.k_contiguous, in_line, tile);
    }
    const auto gathered = [&](size_t i) { return from + call.rows[row + i]; };
    return load_whole_tile(pairs, call.k_contiguous, gathered, tile);
  }
  for (size_t i = 0; i < kTileRows; ++i) {
    __m512i v = _mm512_setzero_si512();
    if (call.k_contiguous) {
      if (i < count) v = pairs.along(src + call.row_at(first + i) + k, depth);
    } else if (2 * i < depth && count > 0) {
      const auto* row = src + call.row_at(k + 2 * i) + first;
      v = 2 * i + 1 < depth ? pairs.across(row, src + call.row_at(k + 2 * i + 1) + first, count)
                            : pairs.across_last(row, count);
    }
    tile[i].raw = _mm512_castsi512_ps(v);
  }
}

// Panels of call.width rows or columns: for each 32 k, width / 16 tiles.
struct PackTiles {
  // Rows that are scattered over a table do not come by themselves: those of a panel are asked for
  // while the panel before is packed, and the beginnings of the first ones ahead of all.
  bool asks_for_rows() const { return call.rows != nullptr && call.k_contiguous; }
  template <class Pairs>
  HWY_INLINE void ask_for_rows(size_t begin, size_t k) const {
    const auto* src = static_cast<const typename Pairs::Element*>(call.src) + call.k0 + k;
    const size_t end = std::min(begin + call.width, call.count);
    for (size_t r = begin; r < end; ++r) __builtin_prefetch(src + call.row_at(call.first + r));
  }
  template <class Pairs>
  HWY_INLINE void ask_for_first_rows() const {
    constexpr size_t kLine = 64 / sizeof(typename Pairs::Element);
    constexpr size_t kBeginning = kTileBytesAhead / sizeof(typename Pairs::Element);
    for (size_t k = 0; k < std::min(kBeginning, call.length); k += kLine) ask_for_rows<Pairs>(0, k);
  }

  const PackCall& call;
  bool by_pair;  // a tile's rows are pairs of k (B), else rows of A
  template <class Pairs>
  HWY_INLINE void operator()(const Pairs& pairs) const {
    auto* to = static_cast<float*>(call.dst);
    hn::Vec<hv::BlockTag> tile[kTileRows];
    if (asks_for_rows()) ask_for_first_rows<Pairs>();
    for (size_t i = 0; i < call.count; i += call.width) {
      for (size_t k = 0; k < call.length; k += kTileDepth) {
        if (asks_for_rows()) ask_for_rows<Pairs>(i + call.width, k);
        const size_t depth = std::min(kTileDepth, call.length - k);
        for (size_t begin = i; begin < i + call.width; begin += kTileRows) {
          const size_t count = begin < call.count ? std::min(kTileRows, call.count - begin) : 0;
          load_tile(pairs, call, call.first + begin, count, call.k0 + k, depth, tile);
          if (call.k_contiguous == by_pair) hv::transpose_block(tile);
          for (size_t r = 0; r < kTileRows; ++r, to += 16) _mm512_storeu_ps(to, tile[r].raw);
        }
      }
    }
  }
};

template <class Round>
HWY_NOINLINE void pack_tiles(const PackCall& call, bool by_pair) {
  with_pairs<Round>(call.dtype, call.bytes, PackTiles{call, by_pair});
}
template <class Round>
void pack_rows(const PackCall& call) {
  pack_tiles<Round>(call, false);
}
template <class Round>
void pack_pairs(const PackCall& call) {
  pack_tiles<Round>(call, true);
}

// Rows or columns of pairs, each padded with zeros to `stride` lanes.
struct PackRows {
  const PackCall& call;
  size_t stride;
  template <class Pairs>
  HWY_INLINE void operator()(const Pairs& pairs) const {
    hn::Vec<hv::BlockTag> tile[kTileRows];
    for (size_t k = 0; k < call.length; k += kTileDepth) {
      const size_t depth = std::min(kTileDepth, call.length - k);
      load_tile(pairs, call, call.first, call.count, call.k0 + k, depth, tile);
      if (!call.k_contiguous) hv::transpose_block(tile);
      float* to = static_cast<float*>(call.dst) + k / 2;
      for (size_t r = 0; r < call.count; ++r) _mm512_storeu_ps(to + r * stride, tile[r].raw);
    }
  }
};

// sum += the products of pairs in each lane.
HWY_INLINE void add_pairs(__m512& sum, __m512i a, __m512i b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}

template <class Pairs>
struct PairLanes {
  using Element = typename Pairs::Element;
  static constexpr size_t kDepth = 2;
  static constexpr bool kConverts = !std::is_same_v<Pairs, StoredPairs>;

  HWY_INLINE LaneVec along(const Element* from) const { return along_part(from, kTileDepth); }
  HWY_INLINE LaneVec along_part(const Element* from, size_t count) const {
    return LaneVec{_mm512_castsi512_ps(pairs.along(from, count))};
  }
  HWY_INLINE LaneVec across(const Element* from, const Element* next) const {
    return LaneVec{_mm512_castsi512_ps(pairs.across(from, next, kTileRows))};
  }
  HWY_INLINE LaneVec across_last(const Element* from) const {
    return LaneVec{_mm512_castsi512_ps(pairs.across_last(from, kTileRows))};
  }
  static HWY_INLINE LaneVec multiply_add(LaneVec a, LaneVec b, LaneVec sum) {
    add_pairs(sum.raw, _mm512_castps_si512(a.raw), _mm512_castps_si512(b.raw));
    return sum;
  }

  Pairs pairs;
};

template <class F>
struct WithPairLanes {
  const F& f;
  template <class Pairs>
  HWY_INLINE void operator()(const Pairs& pairs) const {
    f(PairLanes<Pairs>{pairs});
  }
};

// For the kernels for few columns or rows: whatever the operand, its pairs are made in registers.
struct PairOperands {
  static constexpr size_t kDepth = 2;

  static void pack_columns(const PackCall& columns, size_t stride) {
    with_pairs<RoundByInstruction>(columns.dtype, columns.bytes, PackRows{columns, stride});
  }

  static void pack_narrow(const PackCall& pack) { pack_pairs<RoundByInstruction>(pack); }

  template <class F>
  static bool in_registers(const PackCall& operand, const F& f) {
    with_pairs<RoundByInstruction>(operand.dtype, operand.bytes, WithPairLanes<F>{f});
    return true;
  }

  template <class F>
  static void loaded_once(const PackCall& operand, const F& f) {
    in_registers(operand, f);
  }

  template <class Rows>
  static void dot(const PackCall& left, const Rows& rows, size_t, float*) {
    in_registers(left, rows);
  }
  template <class Panel>
  static void add_panel(const PackCall& wide, const Panel& panel) {
    in_registers(wide, panel);
  }
};

}  // namespace keel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_PAIRS_INL_H
