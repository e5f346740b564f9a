// Products with few columns or rows of C (at most 16), where a register tile of the general kernel
// would be mostly padding.
//
// skinny_rows (A stored [m, k]): k lies in the lanes. Vectors of A's rows meet vectors of B's
// columns, which are packed as rows; each element of C has one accumulator vector, whose lanes are
// added at the end. A is read in place. skinny_columns (A stored [k, m]): m lies in the lanes, so
// that a tile of C is computed transposed from A in place; k goes in the panels of the numeric
// plan. flat_rows (few rows of C, B stored [k, n]) is the same with A and B changing places.
// Included once per Highway target.
#if defined(KEEL_BACKENDS_NPU_ISA_CUBE_SKINNY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_NPU_ISA_CUBE_SKINNY_INL_H
#undef KEEL_BACKENDS_NPU_ISA_CUBE_SKINNY_INL_H
#else
#define KEEL_BACKENDS_NPU_ISA_CUBE_SKINNY_INL_H
#endif

#include <algorithm>
#include <utility>

#include "hwy/highway.h"

#include "keel/backends/npu/isa/cube_kernels.h"
#include "keel/backends/npu/isa/cube_pack-inl.h"
#include "keel/backends/npu/isa/cube_tile-inl.h"
#include "keel/core/base/gather_rows.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using SkinnyTag = hn::ScalableTag<float>;
using SkinnyVec = hn::Vec<SkinnyTag>;
constexpr size_t kSkinnyLanes = hn::MaxLanes(SkinnyTag());
constexpr size_t kSkinnyStride = kSkinnyColumns;  // of the tiles handed to finish_tile

// Accumulators for a group of columns: as many as the registers hold.
#if HWY_TARGET == HWY_AVX3
constexpr size_t kDotRows = 4, kDotColumns = 6;
constexpr size_t kByteRows = 2, kByteColumns = 10;
constexpr size_t kOuterVectors = 2, kOuterColumns = 12;
constexpr size_t kFewVectors = 8;
#else
constexpr size_t kDotRows = 2, kDotColumns = 5;
constexpr size_t kByteRows = 1, kByteColumns = 0;  // too few registers: bytes are widened first
constexpr size_t kOuterVectors = 2, kOuterColumns = 5;
constexpr size_t kFewVectors = 4;
#endif

// ------------------------------------------------------------------------------ k in the lanes

template <size_t kRows, size_t kColumns>
HWY_INLINE void dot_step(SkinnyVec (&sums)[kRows][kColumns], const SkinnyVec (&a)[kRows],
                         const float* b, size_t b_stride) {
#pragma GCC unroll 16
  for (size_t c = 0; c < kColumns; ++c) {
    const auto right = hn::LoadU(SkinnyTag(), b + c * b_stride);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) sums[r][c] = hn::MulAdd(a[r], right, sums[r][c]);
  }
}

// The lanes of up to 16 vectors, added in the order of SumOfLanes, as one vector.
template <size_t kCount>
HWY_INLINE SkinnyVec sums_of_lanes(const SkinnyVec* v) {
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
  return SkinnyVec{_mm512_permutexvar_ps(order, sums)};
#else
  const SkinnyTag d;
  HWY_ALIGN float sums[hn::MaxLanes(SkinnyTag())] = {};
  for (size_t i = 0; i < kCount; ++i) sums[i] = hn::GetLane(hn::SumOfLanes(d, v[i]));
  return hn::Load(d, sums);
#endif
}

// sums of kRows rows of A and kColumns rows of packed B over all of k, to tile[r][c].
template <size_t kRows, size_t kColumns, class Loader>
HWY_INLINE void dot_tile(const Loader& loader, const typename Loader::Element* const* a,
                         const float* b, size_t b_stride, size_t k, float* tile) {
  const SkinnyTag d;
  SkinnyVec sums[kRows][kColumns];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t c = 0; c < kColumns; ++c) sums[r][c] = hn::Zero(d);
  }
  SkinnyVec left[kRows];
  size_t p = 0;
  for (; p + kSkinnyLanes <= k; p += kSkinnyLanes) {
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) left[r] = loader.load(d, a[r] + p);
    dot_step(sums, left, b + p, b_stride);
  }
  if (p < k) {
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) left[r] = load_part(loader, d, a[r] + p, k - p);
    dot_step(sums, left, b + p, b_stride);
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
    if constexpr (kSkinnyLanes >= kSkinnyColumns) {
      hn::BlendedStore(sums_of_lanes<kColumns>(sums[r]), hn::FirstN(d, kColumns), d,
                       tile + r * kSkinnyStride);
    } else {
#pragma GCC unroll 16
      for (size_t c = 0; c < kColumns; ++c) {
        tile[r * kSkinnyStride + c] = hn::GetLane(hn::SumOfLanes(d, sums[r][c]));
      }
    }
  }
}

template <size_t kRows, size_t kColumns, class Loader>
HWY_INLINE void dot_columns(size_t columns, const Loader& loader,
                            const typename Loader::Element* const* a, const float* b,
                            size_t b_stride, size_t k, float* tile) {
  if constexpr (kColumns > 0) {
    if (columns == kColumns) {
      return dot_tile<kRows, kColumns>(loader, a, b, b_stride, k, tile);
    }
    dot_columns<kRows, kColumns - 1>(columns, loader, a, b, b_stride, k, tile);
  }
}

// `rows` rows of A, at most kRows, and all columns, these in groups as equal as they can be.
template <size_t kRows, size_t kColumns, class Loader>
HWY_INLINE void dot_rows(const Loader& loader, const typename Loader::Element* const* a,
                         size_t rows, const float* b, size_t b_stride, size_t columns, size_t k,
                         float* tile) {
  const size_t groups = (columns + kColumns - 1) / kColumns;
  for (size_t g = 0; g < groups; ++g) {
    const size_t c0 = columns * g / groups, c1 = columns * (g + 1) / groups;
    const float* right = b + c0 * b_stride;
    if (rows == kRows) {
      dot_columns<kRows, kColumns>(c1 - c0, loader, a, right, b_stride, k, tile + c0);
      continue;
    }
    for (size_t r = 0; r < rows; ++r) {
      dot_columns<1, kColumns>(c1 - c0, loader, a + r, right, b_stride, k,
                               tile + r * kSkinnyStride + c0);
    }
  }
}

// Rows of `k` elements widened to f32, each padded with zeros to `stride`.
struct WidenRows {
  const void* src;
  size_t src_stride, rows, k;
  float* to;
  size_t stride;
  template <class Loader>
  HWY_INLINE void operator()(const Loader& loader) const {
    const SkinnyTag d;
    for (size_t r = 0; r < rows; ++r) {
      const auto* from = static_cast<const typename Loader::Element*>(src) + r * src_stride;
      float* row = to + r * stride;
      size_t p = 0;
      for (; p + kSkinnyLanes <= k; p += kSkinnyLanes) {
        hn::StoreU(loader.load(d, from + p), d, row + p);
      }
      if (p < k) hn::StoreU(load_part(loader, d, from + p, k - p), d, row + p);
    }
  }
};

inline const void* element_at(const void* data, DType dtype, size_t index) {
  return static_cast<const char*>(data) + index * size_of(dtype);
}

// B's columns from n0 on as rows of f32, padded with zeros to `stride`.
inline void pack_columns_as_rows(const SkinnyCall& call, size_t n0, size_t count, size_t stride,
                                 float* to) {
  const CubeProblem& p = call.problem;
  if (p.transpose_b) {
    const void* first = element_at(call.args.b, p.b, n0 * call.args.b_stride);
    return with_loader(p.b, p.round_to, nullptr,
                       WidenRows{first, call.args.b_stride, count, p.k, to, stride});
  }
  // A panel of "rows" k0 .. with the columns along them: the packing transposes.
  PackCall pack;
  pack.src = call.args.b;
  pack.dtype = p.b;
  pack.round_to = p.round_to;
  pack.stride = call.args.b_stride;
  pack.k_contiguous = true;
  pack.count = p.k;
  pack.k0 = n0;
  pack.length = count;
  pack.width = stride;
  pack.dst = to;
  pack_panels(pack);
}

// One part of C, whose sums are tile [rows, tile_stride].
inline void finish_part(const SkinnyCall& call, const CubeRange& part, const float* tile,
                        size_t tile_stride) {
  TileCall finish;
  finish.tile = tile;
  finish.tile_stride = tile_stride;
  finish.rows = part.m1 - part.m0;
  finish.cols = part.n1 - part.n0;
  finish.c =
      call.args.c + (part.m0 - call.args.c_row) * call.args.c_stride + part.n0 - call.args.c_column;
  finish.c_stride = call.args.c_stride;
  finish_tile(finish);
}

// Rows of A that are scattered over a table do not come by themselves: those from `begin` on are
// asked for. Always inlined, as calls of what only prefetches are dropped.
constexpr size_t kGatheredAhead = 8;

HWY_INLINE void prefetch_gathered(const SkinnyCall& call, size_t begin, size_t count) {
  const size_t bytes = call.problem.k * size_of(call.problem.a);
  const size_t end = std::min(begin + count, call.range.m1);
  for (size_t i = begin; i < end; ++i) {
    prefetch_row(
        static_cast<const std::byte*>(element_at(call.args.a, call.problem.a, call.args.a_rows[i])),
        bytes);
  }
}

// Whether bytes are mapped on their way into the registers: where all columns fit there, and the
// map is a matter of a few operations.
inline bool maps_in_registers(const SkinnyCall& call) {
  return kByteColumns > 0 && call.problem.a == u8 && call.problem.round_to == f32 &&
         call.args.bytes->form != ByteMap::Form::kTable;
}

// Calls f(loader) for bytes that are mapped in registers.
template <class F>
HWY_INLINE void with_byte_loader(const ByteMap* map, const F& f) {
  if (map->form == ByteMap::Form::kAffine) return f(ByteLoader<ByteMap::Form::kAffine>(map));
  f(ByteLoader<ByteMap::Form::kDivide>(map));
}

// All rows of the range, kRows at a time.
template <size_t kRows, class F>
HWY_INLINE void for_row_groups(const SkinnyCall& call, const F& f) {
  if (call.args.a_rows != nullptr) prefetch_gathered(call, call.range.m0, kGatheredAhead);
  for (size_t i = call.range.m0; i < call.range.m1; i += kRows) {
    const size_t rows = std::min(kRows, call.range.m1 - i);
    if (call.args.a_rows != nullptr) prefetch_gathered(call, i + kGatheredAhead, rows);
    HWY_ALIGN float tile[kRows * kSkinnyStride];
    f(i, rows, tile);
    finish_part(call, {i, i + rows, call.range.n0, call.range.n1}, tile, kSkinnyStride);
  }
}

inline size_t row_start(const SkinnyCall& call, size_t i) {
  return call.args.a_rows == nullptr ? i * call.args.a_stride : call.args.a_rows[i];
}

struct DotBytes {
  const SkinnyCall& call;
  const float* b;
  size_t stride;
  template <class Loader>
  HWY_INLINE void operator()(const Loader& loader) const {
    const size_t columns = call.range.n1 - call.range.n0;
    for_row_groups<kByteRows>(call, [&](size_t i, size_t rows, float* tile) HWY_ATTR {
      const uint8_t* a[kByteRows];
      for (size_t r = 0; r < rows; ++r) {
        a[r] = static_cast<const uint8_t*>(call.args.a) + row_start(call, i + r);
      }
      dot_rows<kByteRows, std::max<size_t>(1, kByteColumns)>(loader, a, rows, b, stride, columns,
                                                             call.problem.k, tile);
    });
  }
};

inline void dot_floats(const SkinnyCall& call, const float* b, size_t stride, float* widened) {
  const CubeProblem& p = call.problem;
  const bool in_place = p.a == f32 && p.round_to == f32;
  const size_t columns = call.range.n1 - call.range.n0;
  const FloatLoader loader(nullptr);
  for_row_groups<kDotRows>(call, [&](size_t i, size_t rows, float* tile) HWY_ATTR {
    const float* a[kDotRows];
    for (size_t r = 0; r < rows; ++r) {
      const void* row = element_at(call.args.a, p.a, row_start(call, i + r));
      a[r] = in_place ? static_cast<const float*>(row) : widened + r * stride;
      if (in_place) continue;
      with_loader(p.a, p.round_to, call.args.bytes,
                  WidenRows{row, 0, 1, p.k, widened + r * stride, stride});
    }
    dot_rows<kDotRows, kDotColumns>(loader, a, rows, b, stride, columns, p.k, tile);
  });
}

inline void skinny_rows(const SkinnyCall& call) {
  const size_t columns = call.range.n1 - call.range.n0;
  const size_t stride = skinny_padded_k(call.problem.k);
  float* b = call.scratch;
  pack_columns_as_rows(call, call.range.n0, columns, stride, b);
  if (maps_in_registers(call)) return with_byte_loader(call.args.bytes, DotBytes{call, b, stride});
  dot_floats(call, b, stride, b + columns * stride + kPackSlack);
}

// ------------------------------------------------------------------------------ m in the lanes

constexpr size_t kOuterRows = kOuterVectors * kSkinnyLanes;  // rows of C in a tile

// The lanes of a wide operand, row by row along k.
template <class Element>
struct WideRows {
  const Element* first;
  size_t stride;
  const size_t* starts;  // of the rows, where they are not `stride` apart
  HWY_INLINE const Element* at(size_t k) const {
    return first + (starts == nullptr ? k * stride : starts[k]);
  }
};

// kColumns columns of a tile, transposed: to[c * kOuterRows + i] gains the panel's products of row
// i and column c.
template <size_t kColumns, size_t kVectors, class Loader>
HWY_INLINE void outer_tile(const Loader& loader, const WideRows<typename Loader::Element>& a,
                           const float* b, size_t b_stride, size_t length, bool first, float* to) {
  const SkinnyTag d;
  constexpr size_t kRows = kVectors * kSkinnyLanes;
  SkinnyVec sums[kColumns][kVectors];
#pragma GCC unroll 12
  for (size_t c = 0; c < kColumns; ++c) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) sums[c][v] = hn::Zero(d);
  }
  for (size_t k = 0; k < length; ++k, b += b_stride) {
    const auto* row = a.at(k);
    SkinnyVec left[kVectors];
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) left[v] = loader.load(d, row + v * kSkinnyLanes);
#pragma GCC unroll 12
    for (size_t c = 0; c < kColumns; ++c) {
      const auto right = hn::Set(d, b[c]);
#pragma GCC unroll 8
      for (size_t v = 0; v < kVectors; ++v) {
        sums[c][v] = hn::MulAdd(left[v], right, sums[c][v]);
      }
    }
  }
#pragma GCC unroll 12
  for (size_t c = 0; c < kColumns; ++c) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      float* at = to + c * kRows + v * kSkinnyLanes;
      hn::Store(first ? sums[c][v] : hn::Load(d, at) + sums[c][v], d, at);
    }
  }
}

template <size_t kColumns, size_t kVectors, class Loader>
HWY_INLINE void outer_columns(size_t columns, const Loader& loader,
                              const WideRows<typename Loader::Element>& a, const float* b,
                              size_t b_stride, size_t length, bool first, float* to) {
  if constexpr (kColumns > 0) {
    if (columns == kColumns) {
      return outer_tile<kColumns, kVectors>(loader, a, b, b_stride, length, first, to);
    }
    outer_columns<kColumns - 1, kVectors>(columns, loader, a, b, b_stride, length, first, to);
  }
}

// from [kSkinnyStride, kOuterRows] to tile [kOuterRows, kSkinnyStride].
HWY_INLINE void transpose_tile(const float* from, float* tile) {
  const BlockTag d;
  hn::Vec<BlockTag> block[kBlockSide];
  for (size_t c = 0; c < kSkinnyStride; c += kBlockSide) {
    for (size_t i = 0; i < kOuterRows; i += kBlockSide) {
      for (size_t r = 0; r < kBlockSide; ++r) {
        block[r] = hn::LoadU(d, from + (c + r) * kOuterRows + i);
      }
      transpose_block(block);
      for (size_t r = 0; r < kBlockSide; ++r) {
        hn::StoreU(block[r], d, tile + (i + r) * kSkinnyStride + c);
      }
    }
  }
}

// The two operands of a product with m or n in the lanes: the wide one is stored [k, lanes], of the
// slim one at most kSkinnyColumns rows or columns are multiplied with it.
struct OuterSides {
  const SkinnyCall& call;
  bool swapped;  // the wide operand is B

  PackCall wide() const { return side(swapped); }
  PackCall slim() const { return side(!swapped); }
  size_t wide_begin() const { return swapped ? call.range.n0 : call.range.m0; }
  size_t wide_end() const { return swapped ? call.range.n1 : call.range.m1; }

 private:
  PackCall side(bool right) const {
    PackCall pack;
    pack.src = right ? call.args.b : call.args.a;
    pack.dtype = right ? call.problem.b : call.problem.a;
    pack.round_to = call.problem.round_to;
    pack.stride = right ? call.args.b_stride : call.args.a_stride;
    pack.rows = right ? nullptr : call.args.a_rows;
    pack.k_contiguous = right ? call.problem.transpose_b : !call.problem.transpose_a;
    pack.first = right ? call.range.n0 : call.range.m0;
    pack.count = right ? call.range.n1 - call.range.n0 : call.range.m1 - call.range.m0;
    pack.bytes = right ? nullptr : call.args.bytes;
    return pack;
  }
};

// Whether the kernels can read an operand where it lies.
inline bool in_place(const PackCall& pack) {
  return pack.dtype == f32 && pack.round_to == f32 && pack.rows == nullptr;
}

// One panel of k of the wide operand and all slim columns, in groups as equal as they can be.
struct OuterPanel {
  const float* slim;  // [length, kSkinnyStride]
  size_t slim_count, length;
  bool first;
  float* sums;

  template <class Loader>
  HWY_INLINE void add(const Loader& loader, const WideRows<typename Loader::Element>& wide) const {
    const size_t groups = (slim_count + kOuterColumns - 1) / kOuterColumns;
    for (size_t g = 0; g < groups; ++g) {
      const size_t c0 = slim_count * g / groups, c1 = slim_count * (g + 1) / groups;
      outer_columns<kOuterColumns, kOuterVectors>(c1 - c0, loader, wide, slim + c0, kSkinnyStride,
                                                  length, first, sums + c0 * kOuterRows);
    }
  }
};

struct OuterBytes {
  const OuterPanel& panel;
  WideRows<uint8_t> wide;
  template <class Loader>
  HWY_INLINE void operator()(const Loader& loader) const {
    panel.add(loader, wide);
  }
};

// sums[c][i]: the product of lane i and slim c, over all panels of k in order. Lanes are read in
// place, or packed into `buffer` where they are not f32, nor bytes, or too few.
inline void outer_sums(const OuterSides& sides, const float* slim, size_t slim_count, size_t first,
                       size_t count, float* buffer, float* sums) {
  const size_t k = sides.call.problem.k;
  PackCall wide = sides.wide();
  for (size_t k0 = 0; k0 < k; k0 += sides.call.k_panel) {
    const size_t length = std::min(sides.call.k_panel, k - k0);
    const OuterPanel panel{slim + k0 * kSkinnyStride, slim_count, length, k0 == 0, sums};
    const size_t begin = wide.rows == nullptr ? k0 * wide.stride + first : first;
    const size_t* starts = wide.rows == nullptr ? nullptr : wide.rows + k0;
    if (count == kOuterRows && in_place(wide)) {
      panel.add(FloatLoader(nullptr),
                {static_cast<const float*>(wide.src) + begin, wide.stride, nullptr});
    } else if (count == kOuterRows && wide.dtype == u8 && maps_in_registers(sides.call)) {
      with_byte_loader(
          wide.bytes,
          OuterBytes{panel, {static_cast<const uint8_t*>(wide.src) + begin, wide.stride, starts}});
    } else {
      wide.first = first;
      wide.count = count;
      wide.k0 = k0;
      wide.length = length;
      wide.width = kOuterRows;
      wide.dst = buffer;
      pack_panels(wide);
      panel.add(FloatLoader(nullptr), {buffer, kOuterRows, nullptr});
    }
  }
}

// One or two slim columns leave the registers idle and each sum waiting for the one before: then
// tiles are as many vectors wide as there are registers. Element by element it is the same sum.
constexpr size_t kFewColumns = 2;
constexpr size_t kFewRows = kFewVectors * kSkinnyLanes;

// As many lanes from `begin` on as fill such tiles; returns where it stopped.
template <bool kSwapped>
size_t few_outer(const OuterSides& sides, const float* slim, size_t slim_count, size_t begin) {
  const SkinnyCall& call = sides.call;
  const PackCall wide = sides.wide();
  if (slim_count > kFewColumns || !in_place(wide)) return begin;
  HWY_ALIGN float sums[kFewColumns * kFewRows] = {};
  HWY_ALIGN float tile[kFewRows * kFewColumns];
  size_t i = begin;
  for (; i + kFewRows <= sides.wide_end(); i += kFewRows) {
    for (size_t k0 = 0; k0 < call.problem.k; k0 += call.k_panel) {
      const float* a = static_cast<const float*>(wide.src) + k0 * wide.stride + i;
      const size_t length = std::min(call.k_panel, call.problem.k - k0);
      outer_columns<kFewColumns, kFewVectors>(slim_count, FloatLoader(nullptr),
                                              {a, wide.stride, nullptr}, slim + k0 * kSkinnyStride,
                                              kSkinnyStride, length, k0 == 0, sums);
    }
    if (kSwapped) {
      finish_part(call, {call.range.m0, call.range.m1, i, i + kFewRows}, sums, kFewRows);
      continue;
    }
    for (size_t c = 0; c < slim_count; ++c) {
      for (size_t r = 0; r < kFewRows; ++r) tile[r * kFewColumns + c] = sums[c * kFewRows + r];
    }
    finish_part(call, {i, i + kFewRows, call.range.n0, call.range.n1}, tile, kFewColumns);
  }
  return i;
}

template <bool kSwapped>
void skinny_outer(const SkinnyCall& call) {
  const OuterSides sides{call, kSwapped};
  PackCall pack = sides.slim();
  pack.length = call.problem.k;
  pack.width = kSkinnyStride;
  float* slim = call.scratch;
  float* buffer = slim + skinny_padded_k(call.problem.k) * kSkinnyStride + kPackSlack;
  pack.dst = slim;
  pack_panels(pack);
  HWY_ALIGN float sums[kSkinnyStride * kOuterRows] = {};
  HWY_ALIGN float tile[kOuterRows * kSkinnyStride];
  size_t i = few_outer<kSwapped>(sides, slim, pack.count, sides.wide_begin());
  for (; i < sides.wide_end(); i += kOuterRows) {
    const size_t count = std::min(kOuterRows, sides.wide_end() - i);
    outer_sums(sides, slim, pack.count, i, count, buffer, sums);
    if (kSwapped) {
      finish_part(call, {call.range.m0, call.range.m1, i, i + count}, sums, kOuterRows);
    } else {
      transpose_tile(sums, tile);
      finish_part(call, {i, i + count, call.range.n0, call.range.n1}, tile, kSkinnyStride);
    }
  }
}

inline void skinny_columns(const SkinnyCall& call) { skinny_outer<false>(call); }
inline void flat_rows(const SkinnyCall& call) { skinny_outer<true>(call); }

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_NPU_ISA_CUBE_SKINNY_INL_H
