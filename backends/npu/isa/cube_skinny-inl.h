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
constexpr size_t kOuterVectors = 2, kOuterColumns = 12;
constexpr size_t kFewVectors = 8;
#else
constexpr size_t kDotRows = 2, kDotColumns = 5;
constexpr size_t kOuterVectors = 2, kOuterColumns = 5;
constexpr size_t kFewVectors = 4;
#endif

// ------------------------------------------------------------------------------ k in the lanes

template <size_t kRows, size_t kColumns>
HWY_INLINE void dot_step(SkinnyVec (&sums)[kRows][kColumns], const SkinnyVec (&a)[kRows],
                         const float* b, size_t b_stride) {
#pragma GCC unroll 8
  for (size_t c = 0; c < kColumns; ++c) {
    const auto right = hn::LoadU(SkinnyTag(), b + c * b_stride);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) sums[r][c] = hn::MulAdd(a[r], right, sums[r][c]);
  }
}

// sums of kRows rows of A and kColumns rows of packed B over all of k, to tile[r][c].
template <size_t kRows, size_t kColumns>
HWY_INLINE void dot_tile(const float* a, size_t a_stride, const float* b, size_t b_stride, size_t k,
                         float* tile) {
  const SkinnyTag d;
  const FloatLoader loader(nullptr);
  SkinnyVec sums[kRows][kColumns];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t c = 0; c < kColumns; ++c) sums[r][c] = hn::Zero(d);
  }
  SkinnyVec left[kRows];
  size_t p = 0;
  for (; p + kSkinnyLanes <= k; p += kSkinnyLanes) {
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) left[r] = hn::LoadU(d, a + r * a_stride + p);
    dot_step(sums, left, b + p, b_stride);
  }
  if (p < k) {
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) left[r] = load_part(loader, d, a + r * a_stride + p, k - p);
    dot_step(sums, left, b + p, b_stride);
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t c = 0; c < kColumns; ++c) {
      tile[r * kSkinnyStride + c] = hn::GetLane(hn::SumOfLanes(d, sums[r][c]));
    }
  }
}

template <size_t kRows, size_t kColumns>
HWY_INLINE void dot_columns(size_t columns, const float* a, size_t a_stride, const float* b,
                            size_t b_stride, size_t k, float* tile) {
  if constexpr (kColumns > 0) {
    if (columns == kColumns) return dot_tile<kRows, kColumns>(a, a_stride, b, b_stride, k, tile);
    dot_columns<kRows, kColumns - 1>(columns, a, a_stride, b, b_stride, k, tile);
  }
}

// Rows of `k` elements widened to f32, each padded with zeros to `stride`.
struct WidenRows {
  const void* src;
  const size_t* starts;  // of the rows, in elements, where they are not src_stride apart
  size_t src_stride, rows, k;
  float* to;
  size_t stride;
  template <class Loader>
  HWY_INLINE void operator()(const Loader& loader) const {
    const SkinnyTag d;
    for (size_t r = 0; r < rows; ++r) {
      const auto* from = static_cast<const typename Loader::Element*>(src) +
                         (starts == nullptr ? r * src_stride : starts[r]);
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
                       WidenRows{first, nullptr, call.args.b_stride, count, p.k, to, stride});
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

// The epilogue for one part of C, whose sums are tile [rows, tile_stride].
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
  finish.partial = finish.c;
  finish.partial_stride = finish.c_stride;
  finish.epilogue = call.args.epilogue;
  if (finish.epilogue.bias != nullptr) finish.epilogue.bias += part.n0;
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

inline void skinny_rows(const SkinnyCall& call) {
  const CubeProblem& p = call.problem;
  const size_t columns = call.range.n1 - call.range.n0;
  const size_t stride = skinny_padded_k(p.k);
  float* b = call.scratch;
  float* widened = b + columns * stride + kPackSlack;
  pack_columns_as_rows(call, call.range.n0, columns, stride, b);
  // Groups of columns as equal as they can be.
  const size_t groups = (columns + kDotColumns - 1) / kDotColumns;
  HWY_ALIGN float tile[kDotRows * kSkinnyStride];
  if (call.args.a_rows != nullptr) prefetch_gathered(call, call.range.m0, kGatheredAhead);
  for (size_t i = call.range.m0; i < call.range.m1; i += kDotRows) {
    const size_t rows = std::min(kDotRows, call.range.m1 - i);
    const size_t* starts = call.args.a_rows == nullptr ? nullptr : call.args.a_rows + i;
    if (starts != nullptr) prefetch_gathered(call, i + kGatheredAhead, rows);
    const void* first =
        element_at(call.args.a, p.a, starts == nullptr ? i * call.args.a_stride : 0);
    const auto* a = static_cast<const float*>(first);
    size_t a_stride = call.args.a_stride;
    if (p.a != f32 || p.round_to != f32 || starts != nullptr) {
      with_loader(p.a, p.round_to, call.args.bytes,
                  WidenRows{first, starts, a_stride, rows, p.k, widened, stride});
      a = widened;
      a_stride = stride;
    }
    for (size_t g = 0; g < groups; ++g) {
      const size_t c0 = columns * g / groups, c1 = columns * (g + 1) / groups;
      const float* right = b + c0 * stride;
      if (rows == kDotRows) {
        dot_columns<kDotRows, kDotColumns>(c1 - c0, a, a_stride, right, stride, p.k, tile + c0);
        continue;
      }
      for (size_t r = 0; r < rows; ++r) {
        dot_columns<1, kDotColumns>(c1 - c0, a + r * a_stride, a_stride, right, stride, p.k,
                                    tile + r * kSkinnyStride + c0);
      }
    }
    finish_part(call, {i, i + rows, call.range.n0, call.range.n1}, tile, kSkinnyStride);
  }
}

// ------------------------------------------------------------------------------ m in the lanes

constexpr size_t kOuterRows = kOuterVectors * kSkinnyLanes;  // rows of C in a tile

// kColumns columns of a tile, transposed: to[c * kOuterRows + i] gains the panel's products of row
// i and column c.
template <size_t kColumns, size_t kVectors>
HWY_INLINE void outer_tile(const float* a, size_t a_stride, const float* b, size_t b_stride,
                           size_t length, bool first, float* to) {
  const SkinnyTag d;
  constexpr size_t kRows = kVectors * kSkinnyLanes;
  SkinnyVec sums[kColumns][kVectors];
#pragma GCC unroll 12
  for (size_t c = 0; c < kColumns; ++c) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) sums[c][v] = hn::Zero(d);
  }
  for (size_t k = 0; k < length; ++k, a += a_stride, b += b_stride) {
    SkinnyVec left[kVectors];
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) left[v] = hn::LoadU(d, a + v * kSkinnyLanes);
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

template <size_t kColumns, size_t kVectors>
HWY_INLINE void outer_columns(size_t columns, const float* a, size_t a_stride, const float* b,
                              size_t b_stride, size_t length, bool first, float* to) {
  if constexpr (kColumns > 0) {
    if (columns == kColumns) {
      return outer_tile<kColumns, kVectors>(a, a_stride, b, b_stride, length, first, to);
    }
    outer_columns<kColumns - 1, kVectors>(columns, a, a_stride, b, b_stride, length, first, to);
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

// One panel of `count` lanes of the wide operand: in place, or packed into `buffer` where they are
// not f32 or too few.
inline const float* outer_wide(PackCall pack, size_t first, size_t count, size_t k0, size_t length,
                               float* buffer, size_t& stride) {
  if (in_place(pack) && count == kOuterRows) {
    stride = pack.stride;
    return static_cast<const float*>(pack.src) + k0 * stride + first;
  }
  pack.first = first;
  pack.count = count;
  pack.k0 = k0;
  pack.length = length;
  pack.width = kOuterRows;
  pack.dst = buffer;
  pack_panels(pack);
  stride = kOuterRows;
  return buffer;
}

// sums[c][i]: the product of lane i and slim c, over all panels of k in order.
inline void outer_sums(const OuterSides& sides, const float* slim, size_t slim_count, size_t first,
                       size_t count, float* buffer, float* sums) {
  const size_t k = sides.call.problem.k;
  const size_t groups = (slim_count + kOuterColumns - 1) / kOuterColumns;
  for (size_t k0 = 0; k0 < k; k0 += sides.call.k_panel) {
    const size_t length = std::min(sides.call.k_panel, k - k0);
    size_t stride = 0;
    const float* wide = outer_wide(sides.wide(), first, count, k0, length, buffer, stride);
    for (size_t g = 0; g < groups; ++g) {
      const size_t c0 = slim_count * g / groups, c1 = slim_count * (g + 1) / groups;
      outer_columns<kOuterColumns, kOuterVectors>(c1 - c0, wide, stride,
                                                  slim + k0 * kSkinnyStride + c0, kSkinnyStride,
                                                  length, k0 == 0, sums + c0 * kOuterRows);
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
      outer_columns<kFewColumns, kFewVectors>(slim_count, a, wide.stride, slim + k0 * kSkinnyStride,
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
