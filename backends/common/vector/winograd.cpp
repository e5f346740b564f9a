#include "keel/backends/common/vector/winograd.h"

#include <algorithm>
#include <utility>

#include "keel/ops/products/winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/winograd.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/common/vector/small_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <size_t kTaps>
inline constexpr WinogradMatrices<2, kTaps> kMatrices{};

// The matrix of a step: its rows make the results.
template <WinogradStep kStep, size_t kTaps>
struct StepMatrix {
  static constexpr size_t kPoints = WinogradMatrices<2, kTaps>::kPoints;
  static constexpr size_t kRows = kStep == WinogradStep::kResults    ? 2
                                  : kStep == WinogradStep::kGradient ? kTaps
                                                                     : kPoints;
  static constexpr size_t kColumns = kStep == WinogradStep::kWeights    ? kTaps
                                     : kStep == WinogradStep::kUpstream ? 2
                                                                        : kPoints;
  static constexpr double at(size_t row, size_t column) {
    switch (kStep) {
      case WinogradStep::kInput:
        return kMatrices<kTaps>.input[row][column];
      case WinogradStep::kWeights:
        return kMatrices<kTaps>.weights[row][column];
      case WinogradStep::kResults:
        return kMatrices<kTaps>.output[row][column];
      case WinogradStep::kUpstream:
        return kMatrices<kTaps>.output[column][row];
      default:
        return kMatrices<kTaps>.weights[column][row];
    }
  }
};

// sum + coefficient * x, where nothing was summed yet without the sum.
template <class Matrix, size_t kRow, size_t kColumn, class D>
HWY_INLINE void add_term(D d, const hn::Vec<D>* in, hn::Vec<D>& sum, bool& begun) {
  constexpr double kFactor = Matrix::at(kRow, kColumn);
  if constexpr (kFactor != 0) {
    const auto x = in[kColumn];
    const auto factor = hn::Set(d, static_cast<float>(kFactor));
    if (!begun) {
      sum = kFactor == 1 ? x : kFactor == -1 ? hn::Neg(x) : hn::Mul(factor, x);
    } else {
      sum = kFactor == 1    ? hn::Add(sum, x)
            : kFactor == -1 ? hn::Sub(sum, x)
                            : hn::MulAdd(factor, x, sum);
    }
    begun = true;
  }
}

template <class Matrix, size_t kRow, class D, size_t... kColumns>
HWY_INLINE hn::Vec<D> row_of(D d, const hn::Vec<D>* in, std::index_sequence<kColumns...>) {
  auto sum = hn::Zero(d);
  bool begun = false;
  (add_term<Matrix, kRow, kColumns>(d, in, sum, begun), ...);
  return sum;
}

template <class Matrix, class D, size_t... kRows>
HWY_INLINE void apply(D d, const hn::Vec<D>* in, hn::Vec<D>* out, std::index_sequence<kRows...>) {
  ((out[kRows] = row_of<Matrix, kRows>(d, in, std::make_index_sequence<Matrix::kColumns>())), ...);
}

template <class T>
HWY_INLINE bool has_column(const WinogradSide<T>& side, int64_t patch, size_t j) {
  const int64_t number = side.first + 2 * patch + static_cast<int64_t>(j);
  return number >= 0 && number < side.size;
}

// Column j of a patch, transformed.
template <class Matrix, class D>
HWY_INLINE void bring_column(D d, const WinogradSide<const float>& from, int64_t patch, size_t j,
                             size_t channel, hn::Vec<D>* out) {
  hn::Vec<D> in[Matrix::kColumns];
  const bool is_there = has_column(from, patch, j);
  const ptrdiff_t at = from.patch * patch + from.column * static_cast<ptrdiff_t>(j) +
                       static_cast<ptrdiff_t>(channel);
#pragma GCC unroll 6
  for (size_t i = 0; i < Matrix::kColumns; ++i)
    in[i] = is_there && from.rows[i] != nullptr ? hn::LoadU(d, from.rows[i] + at) : hn::Zero(d);
  apply<Matrix>(d, in, out, std::make_index_sequence<Matrix::kRows>());
}

// The line for the channels of D's lanes. kKept columns of a patch are the first ones of the next.
template <class Matrix, size_t kKept, class D>
HWY_INLINE void transform_lanes(D d, const WinogradLine& call, size_t channel) {
  constexpr size_t kIn = Matrix::kColumns, kOut = Matrix::kRows;
  hn::Vec<D> columns[kIn][kOut];
#pragma GCC unroll 6
  for (size_t j = 0; j < kKept; ++j) bring_column<Matrix>(d, call.from, 0, j, channel, columns[j]);
  for (int64_t patch = 0; patch < call.patches; ++patch) {
#pragma GCC unroll 6
    for (size_t j = kKept; j < kIn; ++j)
      bring_column<Matrix>(d, call.from, patch, j, channel, columns[j]);
    const ptrdiff_t at = call.to.patch * patch + static_cast<ptrdiff_t>(channel);
#pragma GCC unroll 6
    for (size_t i = 0; i < kOut; ++i) {
      if (call.to.rows[i] == nullptr) continue;
      hn::Vec<D> line[kIn], out[kOut];
#pragma GCC unroll 6
      for (size_t j = 0; j < kIn; ++j) line[j] = columns[j][i];
      apply<Matrix>(d, line, out, std::make_index_sequence<kOut>());
      float* to = call.to.rows[i] + at;
#pragma GCC unroll 6
      for (size_t j = 0; j < kOut; ++j, to += call.to.column)
        if (has_column(call.to, patch, j)) hn::StoreU(out[j], d, to);
    }
#pragma GCC unroll 6
    for (size_t j = 0; j < kKept; ++j) {
#pragma GCC unroll 6
      for (size_t i = 0; i < kOut; ++i) columns[j][i] = columns[j + kIn - kKept][i];
    }
  }
}

template <class Matrix, size_t kKept, class D>
HWY_INLINE size_t transform_by(D d, const WinogradLine& call, size_t channel) {
  const size_t lanes = hn::Lanes(d);
  for (; channel + lanes <= call.channels; channel += lanes)
    transform_lanes<Matrix, kKept>(d, call, channel);
  return channel;
}

// Whole vectors, then what is left of the channels in smaller ones.
template <WinogradStep kStep, size_t kTaps>
void transform(const WinogradLine& call) {
  using Matrix = StepMatrix<kStep, kTaps>;
  constexpr size_t kKept = kStep == WinogradStep::kInput && kTaps == 3 ? 2 : 0;
  size_t channel = transform_by<Matrix, kKept>(hn::ScalableTag<float>(), call, 0);
  if (channel == call.channels) return;
  channel = transform_by<Matrix, kKept>(hn::CappedTag<float, 4>(), call, channel);
  transform_by<Matrix, kKept>(hn::CappedTag<float, 1>(), call, channel);
}

template <size_t kTaps>
WinogradInstruction transform_of(WinogradStep step) {
  switch (step) {
    case WinogradStep::kInput:
      return &transform<WinogradStep::kInput, kTaps>;
    case WinogradStep::kWeights:
      return &transform<WinogradStep::kWeights, kTaps>;
    case WinogradStep::kResults:
      return &transform<WinogradStep::kResults, kTaps>;
    case WinogradStep::kUpstream:
      return &transform<WinogradStep::kUpstream, kTaps>;
    default:
      return &transform<WinogradStep::kGradient, kTaps>;
  }
}

void multiply_points(const PointProducts& call) {
  static_assert(kProductColumns % hn::MaxLanes(hn::ScalableTag<float>()) == 0);
  const size_t columns = (call.n + kProductColumns - 1) / kProductColumns * kProductColumns;
  for (size_t i = 0; i < call.points; ++i) {
    const SmallProduct product{.a = call.a + i * call.a_point,
                               .a_row = call.a_row,
                               .a_step = call.a_step,
                               .b = call.b + i * call.b_point,
                               .b_row = call.b_row,
                               .c = call.c + i * call.c_point,
                               .c_row = call.c_row,
                               .m = call.m,
                               .n = columns,
                               .k = call.k};
    if (call.adds)
      multiply<true>(product);
    else
      multiply<false>(product);
  }
}

template <class D>
HWY_INLINE size_t mark_lanes(D d, const NonzeroMarks& call, size_t at) {
  const hn::RebindToUnsigned<D> words;
  const hn::Rebind<uint8_t, D> bytes;
  for (; at + hn::Lanes(d) <= call.count; at += hn::Lanes(d)) {
    auto marks = hn::Zero(words);
    const float* from = call.first + at;
    for (size_t image = 0; image < call.images; ++image, from += call.step) {
      const auto is_zero = hn::RebindMask(words, hn::Eq(hn::LoadU(d, from), hn::Zero(d)));
      marks = hn::Or(marks, hn::IfThenZeroElse(is_zero, hn::Set(words, uint32_t{1} << image)));
    }
    hn::StoreU(hn::TruncateTo(bytes, marks), bytes, call.to + at);
  }
  return at;
}

void mark_nonzeros(const NonzeroMarks& call) {
  const size_t at = mark_lanes(hn::ScalableTag<float>(), call, 0);
  mark_lanes(hn::CappedTag<float, 1>(), call, at);
}

void find_common(const CommonMarks& call) {
  const hn::CappedTag<uint8_t, kMarksBehind> d;
  for (size_t j = 0; j < call.columns; j += hn::Lanes(d)) {
    auto common = hn::LoadU(d, call.common + j);
    const uint8_t* left = call.left;
    const uint8_t* right = call.right + j;
    for (size_t i = 0; i < call.count; ++i, left += call.left_step, right += call.right_step)
      common = hn::Or(common, hn::And(hn::Set(d, *left), hn::LoadU(d, right)));
    hn::StoreU(common, d, call.common + j);
  }
}

}  // namespace

WinogradInstruction winograd_here(WinogradStep step, int64_t taps) {
  return taps == 3 ? transform_of<3>(step) : transform_of<5>(step);
}
PointProductsInstruction point_products_here() { return &multiply_points; }
NonzeroMarksInstruction nonzero_marks_here() { return &mark_nonzeros; }
CommonMarksInstruction common_marks_here() { return &find_common; }

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {

HWY_EXPORT(winograd_here);
HWY_EXPORT(point_products_here);
HWY_EXPORT(nonzero_marks_here);
HWY_EXPORT(common_marks_here);

WinogradInstruction find_winograd(WinogradStep step, int64_t taps) {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(winograd_here)(step, taps);
}
PointProductsInstruction find_point_products() {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(point_products_here)();
}
NonzeroMarksInstruction find_nonzero_marks() {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(nonzero_marks_here)();
}
CommonMarksInstruction find_common_marks() {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(common_marks_here)();
}

}  // namespace keel::vector
#endif
