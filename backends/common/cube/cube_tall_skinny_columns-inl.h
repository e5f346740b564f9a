// Products of A stored [k, m] with few columns: m lies in the lanes, so that a tile of C is
// computed transposed from A in place; k goes in the panels of the numeric plan. flat_rows (few
// rows of C, B stored [k, n]) is the same with A and B changing places. Included once per Highway
// target.
#if defined(KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_COLUMNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_COLUMNS_INL_H
#undef KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_COLUMNS_INL_H
#else
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_COLUMNS_INL_H
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "hwy/highway.h"

#include "keel/backends/common/cube/cube_tall_skinny-inl.h"
#include "keel/backends/common/vector/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace hv = vector::HWY_NAMESPACE;

constexpr size_t kOuterVectors = 2;
constexpr size_t kOuterColumns = kManyRegisters ? 12 : 5;
constexpr size_t kOuterRows = kOuterVectors * kFloatLanes;  // rows of C in a tile

// The lanes of a wide operand, row by row along k.
template <class Element>
struct WideRows {
  const Element* first;
  size_t stride;
  const size_t* starts;  // of the rows, where they are not `stride` apart
  HWY_INLINE const Element* at(size_t k) const {
    return first + (starts == nullptr ? k * stride : starts[k]);
  }
  HWY_INLINE WideRows from_lane(size_t lane) const { return {first + lane, stride, starts}; }
};

// Requests a row's part of the next tile, or of the next cache line where tiles are smaller.
// Hardware prefetchers do not follow a column-wise walk, and half the lines are in the other core's
// cache.
template <size_t kVectors, class Element>
HWY_INLINE void prefetch_next_tile(const Element* row) {
  constexpr size_t kLine = 64, kTile = kVectors * kFloatLanes * sizeof(Element);
  const char* next = reinterpret_cast<const char*>(row) + std::max(kTile, kLine);
#pragma GCC unroll 8
  for (size_t b = 0; b < kTile; b += kLine) __builtin_prefetch(next + b);
}

// One step of k: a lane of each wide vector with each of the narrow columns.
template <class Lanes, size_t kColumns, size_t kVectors>
HWY_INLINE void outer_step(LaneVec (&sums)[kColumns][kVectors], const LaneVec (&left)[kVectors],
                           const float* b) {
#pragma GCC unroll 12
  for (size_t c = 0; c < kColumns; ++c) {
    const auto right = hn::Set(FloatTag(), b[c]);
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      sums[c][v] = Lanes::multiply_add(left[v], right, sums[c][v]);
    }
  }
}

// kColumns columns of a tile of kVectors vectors, transposed: to[c * kOuterRows + i] gains the
// panel's products of row i and column c. b: [length / kDepth, b_stride] lanes.
template <size_t kColumns, size_t kVectors, class Lanes>
HWY_INLINE void outer_tile(const Lanes& lanes, const WideRows<typename Lanes::Element>& a,
                           const float* b, size_t b_stride, size_t length, bool first, float* to) {
  const FloatTag d;
  LaneVec sums[kColumns][kVectors], left[kVectors];
#pragma GCC unroll 12
  for (size_t c = 0; c < kColumns; ++c) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) sums[c][v] = hn::Zero(d);
  }
  size_t k = 0;
  for (; k + Lanes::kDepth <= length; k += Lanes::kDepth, b += b_stride) {
    const auto* row = a.at(k);
    const auto* next = a.at(k + Lanes::kDepth - 1);
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      left[v] = lanes.across(row + v * kFloatLanes, next + v * kFloatLanes);
    }
    prefetch_next_tile<kVectors>(row);
    if constexpr (Lanes::kDepth > 1) prefetch_next_tile<kVectors>(next);
    outer_step<Lanes>(sums, left, b);
  }
  if (k < length) {
    const auto* row = a.at(k);
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) left[v] = lanes.across_last(row + v * kFloatLanes);
    outer_step<Lanes>(sums, left, b);
  }
#pragma GCC unroll 12
  for (size_t c = 0; c < kColumns; ++c) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      float* at = to + c * kOuterRows + v * kFloatLanes;
      hn::Store(first ? sums[c][v] : hn::Load(d, at) + sums[c][v], d, at);
    }
  }
}

template <size_t kColumns, size_t kVectors, class Lanes>
HWY_INLINE void outer_columns(size_t columns, const Lanes& lanes,
                              const WideRows<typename Lanes::Element>& a, const float* b,
                              size_t b_stride, size_t length, bool first, float* to) {
  if constexpr (kColumns > 0) {
    if (columns == kColumns) {
      return outer_tile<kColumns, kVectors>(lanes, a, b, b_stride, length, first, to);
    }
    outer_columns<kColumns - 1, kVectors>(columns, lanes, a, b, b_stride, length, first, to);
  }
}

// from [kNarrowStride, kOuterRows] to tile [kOuterRows, kNarrowStride].
HWY_INLINE void transpose_tile(const float* from, float* tile) {
  const hv::BlockTag d;
  hn::Vec<hv::BlockTag> block[hv::kBlockSide];
  for (size_t c = 0; c < kNarrowStride; c += hv::kBlockSide) {
    for (size_t i = 0; i < kOuterRows; i += hv::kBlockSide) {
      for (size_t r = 0; r < hv::kBlockSide; ++r) {
        block[r] = hn::LoadU(d, from + (c + r) * kOuterRows + i);
      }
      hv::transpose_block(block);
      for (size_t r = 0; r < hv::kBlockSide; ++r) {
        hn::StoreU(block[r], d, tile + (i + r) * kNarrowStride + c);
      }
    }
  }
}

// The two operands of a product with m or n in the lanes: the wide one is stored [k, lanes], of the
// narrow one at most kNarrowColumns rows or columns are multiplied with it.
struct OuterSides {
  const TallSkinnyCall& call;
  bool swapped;  // the wide operand is B

  PackCall wide() const { return side(swapped); }
  PackCall narrow() const { return side(!swapped); }
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

// One panel of k of the wide operand and all narrow columns, in groups as equal as they can be.
struct OuterPanel {
  const float* narrow;  // [length / kDepth, kNarrowStride] lanes
  size_t narrow_count, length;
  bool one_vector;  // of the wide operand is there, not kOuterVectors
  bool first;
  float* sums;

  template <class Lanes>
  HWY_INLINE void add(const Lanes& lanes, const WideRows<typename Lanes::Element>& wide) const {
    if constexpr (Lanes::kConverts && !kManyRegisters) {
      // With one vector, twice the columns have their sums in registers beside each other.
      for (size_t lane = 0; lane < (one_vector ? kFloatLanes : kOuterRows); lane += kFloatLanes) {
        add_vectors<1, 2 * kOuterColumns>(lanes, wide.from_lane(lane), lane);
      }
      return;
    }
    if (one_vector) return add_vectors<1, kOuterColumns>(lanes, wide, 0);
    add_vectors<kOuterVectors, kOuterColumns>(lanes, wide, 0);
  }

 private:
  // The lanes from `lane` on.
  template <size_t kVectors, size_t kColumns, class Lanes>
  HWY_INLINE void add_vectors(const Lanes& lanes, const WideRows<typename Lanes::Element>& wide,
                              size_t lane) const {
    const size_t groups = (narrow_count + kColumns - 1) / kColumns;
    for (size_t g = 0; g < groups; ++g) {
      const size_t c0 = narrow_count * g / groups, c1 = narrow_count * (g + 1) / groups;
      outer_columns<kColumns, kVectors>(c1 - c0, lanes, wide, narrow + c0, kNarrowStride, length,
                                        first, sums + c0 * kOuterRows + lane);
    }
  }
};

// Returns the rows from k0 on, where they are stored.
template <class Element>
HWY_INLINE WideRows<Element> stored_rows(const PackCall& wide, const Element* src, size_t k0) {
  if (wide.rows != nullptr) return {src, 0, wide.rows + k0};
  return {src + k0 * wide.stride, wide.stride, nullptr};
}

// The panel's part of the wide operand, of whose lanes wide.count, at most kOuterRows, are there.
template <class Element>
HWY_INLINE WideRows<Element> wide_rows(const PackCall& wide, void* buffer) {
  const auto* src = static_cast<const Element*>(wide.src) + wide.first;
  if (wide.count == kOuterRows || wide.count == kFloatLanes) return stored_rows(wide, src, wide.k0);
  // A part of a vector at the edge is copied, so that whole ones can be loaded.
  const size_t lanes = wide.count < kFloatLanes ? kFloatLanes : kOuterRows;
  auto* to = static_cast<Element*>(buffer);
  for (size_t k = 0; k < wide.length; ++k, to += kOuterRows) {
    std::memcpy(to, src + wide.row_at(wide.k0 + k), wide.count * sizeof(Element));
    std::memset(to + wide.count, 0, (lanes - wide.count) * sizeof(Element));
  }
  return {static_cast<const Element*>(buffer), kOuterRows, nullptr};
}

// One panel with lanes that are loaded straight into registers.
struct OuterLanes {
  const OuterPanel& panel;
  const PackCall& wide;
  void* buffer;
  template <class Lanes>
  HWY_INLINE void operator()(const Lanes& lanes) const {
    panel.add(lanes, wide_rows<typename Lanes::Element>(wide, buffer));
  }
  // The same with what pack_panels has put into the buffer.
  HWY_INLINE void packed() const {
    panel.add(plain_floats(), {static_cast<const float*>(buffer), kOuterRows, nullptr});
  }
};

// sums[c * kOuterRows + i]: the product of lane i and narrow c, over all panels of k in order. What
// parts of k come to is added as a balanced tree.
template <class Operands>
class OuterSums {
 public:
  OuterSums(const OuterSides& sides, const float* narrow, size_t narrow_count, void* buffer)
      : narrow_(narrow),
        narrow_count_(narrow_count),
        parts_(sides.call.problem.parts),
        k_(sides.call.problem.k / parts_),
        k_panel_(sides.call.k_panel),
        buffer_(buffer),
        wide_(sides.wide()) {
    wide_.width = kOuterRows;
    wide_.dst = buffer;
  }

  // The sums of lanes [first, first + count), at most kOuterRows.
  void compute(size_t first, size_t count, float* sums) {
    wide_.first = first;
    wide_.count = count;
    add_parts(0, parts_, sums, 0);
  }

 private:
  void add_parts(size_t begin, size_t end, float* to, size_t level) {
    if (end - begin == 1) return add_part(begin, true, to);
    const size_t middle = begin + (end - begin) / 2;
    add_parts(begin, middle, to, level);
    // The registers that have the sums of a single panel add them.
    if (end - middle == 1 && k_ <= k_panel_) return add_part(middle, false, to);
    float* waiting = waiting_[level];
    add_parts(middle, end, waiting, level + 1);
    const FloatTag d;
    const size_t step = has_one_vector() ? kOuterRows : kFloatLanes;
    for (size_t i = 0; i < narrow_count_ * kOuterRows; i += step)
      hn::Store(hn::Load(d, to + i) + hn::Load(d, waiting + i), d, to + i);
  }

  // `first`: nothing is there that the part is added to.
  void add_part(size_t part, bool first, float* to) {
    const size_t begin = part * k_;
    for (size_t k0 = 0; k0 < k_; k0 += k_panel_) {
      wide_.k0 = begin + k0;
      wide_.length = std::min(k_panel_, k_ - k0);
      const OuterPanel panel{narrow_ + wide_.k0 / Operands::kDepth * kNarrowStride,
                             narrow_count_,
                             wide_.length,
                             has_one_vector(),
                             first && k0 == 0,
                             to};
      Operands::add_panel(wide_, OuterLanes{panel, wide_, buffer_});
    }
  }

  bool has_one_vector() const { return wide_.count <= kFloatLanes; }

  const float* narrow_;
  const size_t narrow_count_, parts_, k_, k_panel_;
  void* buffer_;
  PackCall wide_;
  HWY_ALIGN float waiting_[std::bit_width(kMostPartsOfTile - 1)][kNarrowStride * kOuterRows];
};

// One or two narrow columns are bound by reading the wide operand. It is read as it is stored, some
// rows side by side, so that processors foresee it, and the sums stay in the first cache. Element
// by element it is the same sum.
constexpr size_t kFewDepth = kManyRegisters ? 8 : 4;  // steps of k at once
constexpr size_t kFewVectors = 64;
constexpr size_t kFewRows = kFewVectors * kFloatLanes;  // lanes at once

// kSteps steps of k: sums[c * kFewRows + i] gains the products of lane i and column c.
template <size_t kColumns, size_t kSteps, class Lanes>
HWY_INLINE void few_steps(const Lanes& lanes, const WideRows<typename Lanes::Element>& wide,
                          size_t k, const float* b, size_t b_stride, size_t vectors, float* sums) {
  const FloatTag d;
  const typename Lanes::Element* rows[kSteps * Lanes::kDepth];
  LaneVec right[kSteps][kColumns];
#pragma GCC unroll 8
  for (size_t s = 0; s < kSteps; ++s) {
#pragma GCC unroll 2
    for (size_t i = 0; i < Lanes::kDepth; ++i)
      rows[s * Lanes::kDepth + i] = wide.at(k + s * Lanes::kDepth + i);
#pragma GCC unroll 2
    for (size_t c = 0; c < kColumns; ++c) right[s][c] = hn::Set(d, b[c * b_stride + s]);
  }
  for (size_t v = 0; v < vectors; ++v) {
    LaneVec sum[kColumns];
#pragma GCC unroll 2
    for (size_t c = 0; c < kColumns; ++c) {
      sum[c] = hn::Load(d, sums + c * kFewRows + v * kFloatLanes);
    }
#pragma GCC unroll 8
    for (size_t s = 0; s < kSteps; ++s) {
      const auto left = lanes.across(rows[s * Lanes::kDepth] + v * kFloatLanes,
                                     rows[(s + 1) * Lanes::kDepth - 1] + v * kFloatLanes);
#pragma GCC unroll 2
      for (size_t c = 0; c < kColumns; ++c) {
        sum[c] = Lanes::multiply_add(left, right[s][c], sum[c]);
      }
    }
#pragma GCC unroll 2
    for (size_t c = 0; c < kColumns; ++c) {
      hn::Store(sum[c], d, sums + c * kFewRows + v * kFloatLanes);
    }
  }
}

// All whole vectors of lanes from `begin` on.
template <class Operands>
struct FewOuter {
  const OuterSides& sides;
  const PackCall& wide;
  float* narrow;  // room for the narrow columns, one behind the other along k
  size_t narrow_count;
  size_t& begin;

  template <class Lanes>
  HWY_INLINE void operator()(const Lanes& lanes) const {
    HWY_ALIGN float sums[kFewColumns * kFewRows], panel[kFewColumns * kFewRows];
    pack_narrow();
    while (begin + kFloatLanes <= sides.wide_end()) {
      const size_t vectors = std::min(kFewVectors, (sides.wide_end() - begin) / kFloatLanes);
      add_panels(lanes, vectors, sums, panel);
      finish(sums, vectors * kFloatLanes);
      begin += vectors * kFloatLanes;
    }
  }

 private:
  size_t stride() const { return tall_skinny_padded_k(sides.call.problem.k); }

  void pack_narrow() const {
    PackCall pack = sides.narrow();
    pack.length = sides.call.problem.k;
    pack.dst = narrow;
    Operands::pack_columns(pack, stride());
  }

  template <class Lanes>
  HWY_INLINE void add_panels(const Lanes& lanes, size_t vectors, float* sums, float* panel) const {
    const TallSkinnyCall& call = sides.call;
    const FloatTag d;
    for (size_t k0 = 0; k0 < call.problem.k; k0 += call.k_panel) {
      float* to = k0 == 0 ? sums : panel;
      for (size_t c = 0; c < narrow_count; ++c)
        std::fill_n(to + c * kFewRows, vectors * kFloatLanes, 0.0f);
      if (narrow_count == 1) {
        add_panel<1>(lanes, k0, vectors, to);
      } else {
        add_panel<2>(lanes, k0, vectors, to);
      }
      if (k0 == 0) continue;
      for (size_t c = 0; c < narrow_count; ++c) {
        float* at = sums + c * kFewRows;
        for (size_t i = 0; i < vectors * kFloatLanes; i += kFloatLanes)
          hn::Store(hn::Load(d, at + i) + hn::Load(d, panel + c * kFewRows + i), d, at + i);
      }
    }
  }

  template <size_t kColumns, class Lanes>
  HWY_INLINE void add_panel(const Lanes& lanes, size_t k0, size_t vectors, float* to) const {
    const size_t length = std::min(sides.call.k_panel, sides.call.problem.k - k0);
    const auto* src = static_cast<const typename Lanes::Element*>(wide.src) + begin;
    const auto rows = stored_rows(wide, src, k0);
    const float* b = narrow + k0 / Lanes::kDepth;
    constexpr size_t kStep = kFewDepth * Lanes::kDepth;
    size_t k = 0;
    for (; k + kStep <= length; k += kStep, b += kFewDepth) {
      few_steps<kColumns, kFewDepth>(lanes, rows, k, b, stride(), vectors, to);
    }
    for (; k + Lanes::kDepth <= length; k += Lanes::kDepth, ++b) {
      few_steps<kColumns, 1>(lanes, rows, k, b, stride(), vectors, to);
    }
    if (k < length) add_last<kColumns>(lanes, rows.at(k), b, vectors, to);
  }

  // The step that has no second k.
  template <size_t kColumns, class Lanes>
  HWY_INLINE void add_last(const Lanes& lanes, const typename Lanes::Element* row, const float* b,
                           size_t vectors, float* to) const {
    const FloatTag d;
    for (size_t v = 0; v < vectors; ++v) {
      const auto left = lanes.across_last(row + v * kFloatLanes);
      for (size_t c = 0; c < kColumns; ++c) {
        float* at = to + c * kFewRows + v * kFloatLanes;
        hn::Store(Lanes::multiply_add(left, hn::Set(d, b[c * stride()]), hn::Load(d, at)), d, at);
      }
    }
  }

  void finish(const float* sums, size_t count) const {
    const TallSkinnyCall& call = sides.call;
    const size_t end = begin + count;
    if (sides.swapped) {
      return finish_part(call, {call.range.m0, call.range.m1, begin, end}, sums, kFewRows);
    }
    HWY_ALIGN float tile[kFewRows * kFewColumns];
    for (size_t c = 0; c < narrow_count; ++c) {
      for (size_t r = 0; r < count; ++r) tile[r * kFewColumns + c] = sums[c * kFewRows + r];
    }
    finish_part(call, {begin, end, call.range.n0, call.range.n1}, tile, kFewColumns);
  }
};

template <class Operands>
void tall_skinny_outer(const OuterSides& sides) {
  const TallSkinnyCall& call = sides.call;
  PackCall pack = sides.narrow();
  pack.length = call.problem.k;
  pack.width = kNarrowStride;
  float* narrow = call.scratch;
  float* buffer = narrow + tall_skinny_padded_k(call.problem.k) * kNarrowStride + kPackSlack;
  pack.dst = narrow;
  size_t i = sides.wide_begin();
  if (pack.count <= kFewColumns && call.problem.parts == 1) {
    const PackCall wide = sides.wide();
    Operands::loaded_once(wide, FewOuter<Operands>{sides, wide, narrow, pack.count, i});
    if (i == sides.wide_end()) return;
  }
  Operands::pack_narrow(pack);
  HWY_ALIGN float sums[kNarrowStride * kOuterRows] = {};
  HWY_ALIGN float tile[kOuterRows * kNarrowStride];
  OuterSums<Operands> outer(sides, narrow, pack.count, buffer);
  for (; i < sides.wide_end(); i += kOuterRows) {
    const size_t count = std::min(kOuterRows, sides.wide_end() - i);
    outer.compute(i, count, sums);
    if (sides.swapped) {
      finish_part(call, {call.range.m0, call.range.m1, i, i + count}, sums, kOuterRows);
    } else {
      transpose_tile(sums, tile);
      finish_part(call, {i, i + count, call.range.n0, call.range.n1}, tile, kNarrowStride);
    }
  }
}

template <class Operands>
void tall_skinny_columns(const TallSkinnyCall& call) {
  tall_skinny_outer<Operands>({call, false});
}

template <class Operands>
void flat_rows(const TallSkinnyCall& call) {
  tall_skinny_outer<Operands>({call, true});
}

}  // namespace keel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_TALL_SKINNY_COLUMNS_INL_H
