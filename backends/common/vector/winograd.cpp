#include "keel/backends/common/vector/winograd.h"

#include <algorithm>
#include <utility>

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

template <size_t kOutputs, size_t kTaps>
inline constexpr WinogradMatrices<kOutputs, kTaps> kMatrices{};

// The matrix of a step for one axis: its rows make the results.
template <WinogradStep kStep, size_t kOutputs, size_t kTaps>
struct StepMatrix {
  static constexpr size_t kOutputsOfTile = kOutputs;
  static constexpr size_t kPoints = WinogradMatrices<kOutputs, kTaps>::kPoints;
  static constexpr size_t kRows = kStep == WinogradStep::kResults    ? kOutputs
                                  : kStep == WinogradStep::kGradient ? kTaps
                                                                     : kPoints;
  static constexpr size_t kColumns = kStep == WinogradStep::kWeights    ? kTaps
                                     : kStep == WinogradStep::kUpstream ? kOutputs
                                                                        : kPoints;
  static constexpr double at(size_t row, size_t column) {
    switch (kStep) {
      case WinogradStep::kInput:
        return kMatrices<kOutputs, kTaps>.input[row][column];
      case WinogradStep::kWeights:
        return kMatrices<kOutputs, kTaps>.weights[row][column];
      case WinogradStep::kResults:
        return kMatrices<kOutputs, kTaps>.output[row][column];
      case WinogradStep::kUpstream:
        return kMatrices<kOutputs, kTaps>.output[column][row];
      default:
        return kMatrices<kOutputs, kTaps>.weights[column][row];
    }
  }
};

// Returns the column that a row's sum begins with: one whose term needs no multiplication, where
// there is one. REQUIRES that the row is not all zeros.
template <class Matrix>
constexpr size_t first_term(size_t row) {
  size_t first = Matrix::kColumns;
  for (size_t j = Matrix::kColumns; j-- > 0;) {
    if (Matrix::at(row, j) == 1) return j;
    if (Matrix::at(row, j) != 0) first = j;
  }
  return first;
}

// sum + coefficient * x of a column behind the first term.
template <class Matrix, size_t kRow, size_t kColumn, class D>
HWY_INLINE void add_term(D d, const hn::Vec<D>* in, hn::Vec<D>& sum) {
  constexpr double kFactor = Matrix::at(kRow, kColumn);
  if constexpr (kFactor != 0 && kColumn != first_term<Matrix>(kRow)) {
    const auto x = in[kColumn];
    sum = kFactor == 1    ? hn::Add(sum, x)
          : kFactor == -1 ? hn::Sub(sum, x)
                          : hn::MulAdd(hn::Set(d, static_cast<float>(kFactor)), x, sum);
  }
}

// Returns true if two rows have the same terms except for the signs of some, as the rows of points
// a and -a do.
template <class Matrix>
constexpr bool are_mirrored(size_t row, size_t other) {
  bool has_same = false, has_opposite = false;
  for (size_t j = 0; j < Matrix::kColumns; ++j) {
    const double x = Matrix::at(row, j), y = Matrix::at(other, j);
    if (x != y && x != -y) return false;
    has_same |= x == y && x != 0;
    has_opposite |= x == -y && x != 0;
  }
  return has_same && has_opposite;
}
// Returns the row that mirrors this one, or the row itself.
template <class Matrix>
constexpr size_t mirror_of(size_t row) {
  for (size_t other = 0; other < Matrix::kRows; ++other)
    if (are_mirrored<Matrix>(row, other)) return other;
  return row;
}

// Keeps the terms of a row that another row has too, or has with the opposite sign.
template <class Matrix, size_t kOther, bool kOpposite>
struct CommonTerms {
  static constexpr size_t kColumns = Matrix::kColumns;
  static constexpr double at(size_t row, size_t column) {
    const double x = Matrix::at(row, column), y = Matrix::at(kOther, column);
    return x == (kOpposite ? -y : y) ? x : 0;
  }
};

template <class Matrix, size_t kRow, class D, size_t... kColumns>
HWY_INLINE hn::Vec<D> row_of(D d, const hn::Vec<D>* in, std::index_sequence<kColumns...>) {
  constexpr size_t kFirst = first_term<Matrix>(kRow);
  constexpr double kFactor = Matrix::at(kRow, kFirst);
  auto sum = in[kFirst];
  if constexpr (kFactor != 1) sum = hn::Mul(hn::Set(d, static_cast<float>(kFactor)), sum);
  (add_term<Matrix, kRow, kColumns>(d, in, sum), ...);
  return sum;
}

// Computes a row by itself, or together with the one before that mirrors it.
template <class Matrix, size_t kRow, class D>
HWY_INLINE void apply_row(D d, const hn::Vec<D>* in, hn::Vec<D>* out) {
  constexpr size_t kMirror = mirror_of<Matrix>(kRow);
  constexpr std::make_index_sequence<Matrix::kColumns> kAll;
  if constexpr (kMirror == kRow) {
    out[kRow] = row_of<Matrix, kRow>(d, in, kAll);
  } else if constexpr (kMirror < kRow) {
    const auto same = row_of<CommonTerms<Matrix, kMirror, false>, kRow>(d, in, kAll);
    const auto opposite = row_of<CommonTerms<Matrix, kMirror, true>, kRow>(d, in, kAll);
    out[kRow] = hn::Add(same, opposite);
    out[kMirror] = hn::Sub(same, opposite);
  }
}

template <class Matrix, class D, size_t... kRows>
HWY_INLINE void apply_rows(D d, const hn::Vec<D>* in, hn::Vec<D>* out,
                           std::index_sequence<kRows...>) {
  (apply_row<Matrix, kRows>(d, in, out), ...);
}

template <class Matrix>
struct Transposed {
  static constexpr size_t kRows = Matrix::kColumns, kColumns = Matrix::kRows;
  static constexpr double at(size_t row, size_t column) { return Matrix::at(column, row); }
};

// The matrix for vectors in which each two elements whose columns mirror each other were replaced
// by their sum and their difference.
template <class Matrix>
struct OfSums {
  static constexpr size_t kRows = Matrix::kRows, kColumns = Matrix::kColumns;
  static constexpr double at(size_t row, size_t column) {
    const size_t mirror = mirror_of<Transposed<Matrix>>(column);
    const double x = Matrix::at(row, column), y = Matrix::at(row, mirror);
    if (mirror == column) return x;
    return (column < mirror) == (x == y) ? (column < mirror ? x : y) : 0;
  }
};

template <class Matrix, size_t kColumn, class D>
HWY_INLINE void sum_column(const hn::Vec<D>* in, hn::Vec<D>* sums) {
  constexpr size_t kMirror = mirror_of<Transposed<Matrix>>(kColumn);
  if constexpr (kMirror == kColumn) sums[kColumn] = in[kColumn];
  if constexpr (kMirror > kColumn) sums[kColumn] = hn::Add(in[kColumn], in[kMirror]);
  if constexpr (kMirror < kColumn) sums[kColumn] = hn::Sub(in[kMirror], in[kColumn]);
}
template <class Matrix, class D, size_t... kColumns>
HWY_INLINE void sum_columns(const hn::Vec<D>* in, hn::Vec<D>* sums,
                            std::index_sequence<kColumns...>) {
  (sum_column<Matrix, kColumns, D>(in, sums), ...);
}

template <class Matrix, class D>
HWY_INLINE void apply(D d, const hn::Vec<D>* in, hn::Vec<D>* out) {
  hn::Vec<D> sums[Matrix::kColumns];
  sum_columns<Matrix, D>(in, sums, std::make_index_sequence<Matrix::kColumns>());
  apply_rows<OfSums<Matrix>>(d, sums, out, std::make_index_sequence<Matrix::kRows>());
}

template <size_t kOutputs, class T>
HWY_INLINE bool has_column(const WinogradSide<T>& side, int64_t patch, size_t j) {
  const int64_t number = side.first + int64_t{kOutputs} * patch + static_cast<int64_t>(j);
  return number >= 0 && number < side.size;
}

// Column j of a patch, transformed.
template <class Matrix, size_t kOutputs, class D>
HWY_INLINE void bring_column(D d, const WinogradSide<const float>& from, bool has_all_rows,
                             int64_t patch, size_t j, size_t channel, hn::Vec<D>* out) {
  hn::Vec<D> in[Matrix::kColumns];
  const bool is_there = has_column<kOutputs>(from, patch, j);
  const ptrdiff_t at = from.patch * patch + from.column * static_cast<ptrdiff_t>(j) +
                       static_cast<ptrdiff_t>(channel);
  if (has_all_rows && is_there) {
#pragma GCC unroll 6
    for (size_t i = 0; i < Matrix::kColumns; ++i) in[i] = hn::LoadU(d, from.rows[i] + at);
  } else {
#pragma GCC unroll 6
    for (size_t i = 0; i < Matrix::kColumns; ++i)
      in[i] = is_there && from.rows[i] != nullptr ? hn::LoadU(d, from.rows[i] + at) : hn::Zero(d);
  }
  apply<Matrix>(d, in, out);
}

// Transforms the line for the channels of D's lanes. The last kKept columns of a patch are the
// first ones of the next, and are not transformed again.
template <class Down, class Across, size_t kKept, class D>
HWY_INLINE void transform_lanes(D d, const WinogradLine& call, size_t channel) {
  constexpr size_t kIn = Across::kColumns, kOutputs = Across::kOutputsOfTile;
  hn::Vec<D> columns[kIn][Down::kRows];
  bool all = true;
  for (size_t i = 0; i < Down::kColumns; ++i) all &= call.from.rows[i] != nullptr;
#pragma GCC unroll 8
  for (size_t j = 0; j < kKept; ++j)
    bring_column<Down, kOutputs>(d, call.from, all, 0, j, channel, columns[j]);
  for (int64_t patch = 0; patch < call.patches; ++patch) {
#pragma GCC unroll 8
    for (size_t j = kKept; j < kIn; ++j)
      bring_column<Down, kOutputs>(d, call.from, all, patch, j, channel, columns[j]);
    const ptrdiff_t at = call.to.patch * patch + static_cast<ptrdiff_t>(channel);
#pragma GCC unroll 6
    for (size_t i = 0; i < Down::kRows; ++i) {
      if (call.to.rows[i] == nullptr) continue;
      hn::Vec<D> line[kIn], out[Across::kRows];
#pragma GCC unroll 8
      for (size_t j = 0; j < kIn; ++j) line[j] = columns[j][i];
      apply<Across>(d, line, out);
      float* to = call.to.rows[i] + at;
#pragma GCC unroll 8
      for (size_t j = 0; j < Across::kRows; ++j, to += call.to.column)
        if (has_column<kOutputs>(call.to, patch, j)) hn::StoreU(out[j], d, to);
    }
#pragma GCC unroll 8
    for (size_t j = 0; j < kKept; ++j) {
#pragma GCC unroll 6
      for (size_t i = 0; i < Down::kRows; ++i) columns[j][i] = columns[j + kIn - kKept][i];
    }
  }
}

template <class Down, class Across, size_t kKept, class D>
HWY_INLINE size_t transform_by(D d, const WinogradLine& call, size_t channel) {
  const size_t lanes = hn::Lanes(d);
  for (; channel + lanes <= call.channels; channel += lanes)
    transform_lanes<Down, Across, kKept>(d, call, channel);
  return channel;
}

// Whole vectors, then what is left of the channels in smaller ones.
template <WinogradStep kStep, size_t kDown, size_t kAcross, size_t kTaps>
void transform(const WinogradLine& call) {
  using Down = StepMatrix<kStep, kDown, kTaps>;
  using Across = StepMatrix<kStep, kAcross, kTaps>;
  constexpr size_t kKept = kStep == WinogradStep::kInput ? kTaps - 1 : 0;
  size_t channel = transform_by<Down, Across, kKept>(hn::ScalableTag<float>(), call, 0);
  if (channel == call.channels) return;
  channel = transform_by<Down, Across, kKept>(hn::CappedTag<float, 4>(), call, channel);
  transform_by<Down, Across, kKept>(hn::CappedTag<float, 1>(), call, channel);
}

template <size_t kDown, size_t kAcross, size_t kTaps>
WinogradInstruction transform_of(WinogradStep step) {
  switch (step) {
    case WinogradStep::kInput:
      return &transform<WinogradStep::kInput, kDown, kAcross, kTaps>;
    case WinogradStep::kWeights:
      return &transform<WinogradStep::kWeights, kDown, kAcross, kTaps>;
    case WinogradStep::kResults:
      return &transform<WinogradStep::kResults, kDown, kAcross, kTaps>;
    case WinogradStep::kUpstream:
      return &transform<WinogradStep::kUpstream, kDown, kAcross, kTaps>;
    default:
      return &transform<WinogradStep::kGradient, kDown, kAcross, kTaps>;
  }
}

void multiply_points(const PointProducts& call) {
  static_assert(kProductColumns % hn::MaxLanes(hn::ScalableTag<float>()) == 0);
  const size_t columns = (call.n + kProductColumns - 1) / kProductColumns * kProductColumns;
  for (size_t i = 0; i < call.points; ++i) {
    call.ahead.bring(i, call.points);
    const SmallProduct product{.a = call.a + i * call.a_point,
                               .a_row = call.a_row,
                               .a_step = call.a_step,
                               .b = call.b + i * call.b_point,
                               .b_row = call.b_row,
                               .c = call.c + i * call.c_point,
                               .c_row = call.c_row,
                               .m = call.m,
                               .n = columns,
                               .k = call.k,
                               .terms = kTermsOfASum};
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
  const auto limit = hn::Set(d, call.largest_zero);
  for (; at + hn::Lanes(d) <= call.count; at += hn::Lanes(d)) {
    auto marks = hn::Zero(words);
    const float* from = call.first + at;
    for (size_t image = 0; image < call.images; ++image, from += call.step) {
      const auto is_zero = hn::RebindMask(words, hn::Le(hn::Abs(hn::LoadU(d, from)), limit));
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

// A vector of columns, of which there is at least one, for kRows rows.
template <size_t kRows>
bool find_common_of(const CommonMarks& call, size_t row, size_t column) {
  const hn::CappedTag<uint8_t, kMarksBehind> d;
  using V = hn::Vec<decltype(d)>;
  // FirstN takes no more than the lanes that there are.
  const auto others = hn::Not(hn::FirstN(d, std::min(call.columns - column, hn::Lanes(d))));
  uint8_t* const to = call.common + row * call.common_row + column;
  V common[kRows];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) common[r] = hn::LoadU(d, to + r * call.common_row);
  const auto all_met = [&]() HWY_ATTR {
    V least = common[0];
#pragma GCC unroll 8
    for (size_t r = 1; r < kRows; ++r) least = hn::Min(least, common[r]);
    return hn::AllTrue(d, hn::Or(others, least != hn::Zero(d)));
  };
  bool met = all_met();
  for (size_t line = 0; !met && line < call.lines; ++line) {
    const auto at = static_cast<ptrdiff_t>(line);
    const uint8_t* left = call.left + at * call.left_line + row;
    const uint8_t* right = call.right + at * call.right_line + column;
    for (size_t i = 0; i < call.count; ++i, left += call.left_step, right += call.right_step) {
      const V marks = hn::LoadU(d, right);
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r)
        common[r] = hn::Or(common[r], hn::And(hn::Set(d, left[r]), marks));
    }
    met = all_met();
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) hn::StoreU(common[r], d, to + r * call.common_row);
  return met;
}

bool find_common(const CommonMarks& call) {
  bool met = true;
  for (size_t j = 0; j < call.columns; j += hn::Lanes(hn::CappedTag<uint8_t, kMarksBehind>())) {
    size_t row = 0;
    for (; row + 8 <= call.rows; row += 8) met &= find_common_of<8>(call, row, j);
    for (; row + 4 <= call.rows; row += 4) met &= find_common_of<4>(call, row, j);
    for (; row < call.rows; ++row) met &= find_common_of<1>(call, row, j);
  }
  return met;
}

}  // namespace

WinogradInstruction winograd_here(WinogradStep step, const WinogradForm& form) {
  return with_winograd_matrices(
      form.outputs, form.taps,
      [step]<size_t kDown, size_t kAcross, size_t kTaps>(const WinogradMatrices<kDown, kTaps>&,
                                                         const WinogradMatrices<kAcross, kTaps>&) {
        return transform_of<kDown, kAcross, kTaps>(step);
      });
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

WinogradInstruction find_winograd(WinogradStep step, const WinogradForm& form) {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(winograd_here)(step, form);
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
