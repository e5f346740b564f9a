// Integer products: some steps of k of a few vectors of B's columns are laid out row by row, then
// each group of rows of C is summed up in registers.
#include "keel/backends/common/vector/integer_product.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/integer_product.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/host_isa.h"

#ifndef KEEL_VECTOR_INTEGER_PRODUCT_ONCE
#define KEEL_VECTOR_INTEGER_PRODUCT_ONCE
namespace keel::vector {

// Sums are kept in this type: bytes in wider lanes, cut off at the end, which wraps just as well.
template <class T>
using SumOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
inline constexpr size_t kPanelVectors = 2, kGroupRows = 4;
inline constexpr size_t kMostSteps = 2048;  // of k that a panel has

}  // namespace keel::vector
#endif

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class PanelProduct {
 public:
  PanelProduct(const IntegerProduct& product, const IntegerProductCall& call)
      : p_(product),
        call_(call),
        a_(static_cast<const T*>(call.a)),
        b_(static_cast<const T*>(call.b)),
        c_(static_cast<T*>(call.c)),
        panel_(static_cast<Sum*>(call.scratch)) {}

  void run() {
    for (size_t n = call_.n0; n < call_.n1; n += kPanel) {
      const size_t columns = std::min(kPanel, call_.n1 - n);
      first_ = 0;
      do {
        steps_ = std::min(kMostSteps, p_.k - first_);
        pack(n, columns);
        size_t m = call_.m0;
        for (; m + kGroupRows <= call_.m1; m += kGroupRows) multiply<kGroupRows>(m, n, columns);
        for (; m < call_.m1; ++m) multiply<1>(m, n, columns);
        first_ += steps_;
      } while (first_ < p_.k);
    }
  }

 private:
  using Sum = SumOf<T>;
  using Tag = hn::ScalableTag<Sum>;
  using Lanes = hn::Vec<Tag>;
  static constexpr size_t kPanel = kPanelVectors * hn::MaxLanes(Tag());

  void pack(size_t n, size_t columns) {
    for (size_t k = 0; k < steps_; ++k) {
      Sum* row = panel_ + k * kPanel;
      const size_t at = first_ + k;
      const T* from = p_.transpose_b ? b_ + n * p_.k + at : b_ + at * p_.n + n;
      const size_t step = p_.transpose_b ? p_.k : 1;
      for (size_t i = 0; i < columns; ++i) row[i] = static_cast<Sum>(from[i * step]);
      std::fill(row + columns, row + kPanel, Sum{0});
    }
  }

  template <size_t kRows>
  void multiply(size_t m, size_t n, size_t columns) {
    const Tag d;
    const size_t row_step = p_.transpose_a ? 1 : p_.k;
    const size_t k_step = p_.transpose_a ? p_.m : 1;
    const T* a = a_ + m * row_step + first_ * k_step;
    Lanes sums[kRows][kPanelVectors];
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = hn::Zero(d);
    for (size_t k = 0; k < steps_; ++k, a += k_step) {
      const Lanes low = hn::Load(d, panel_ + k * kPanel);
      const Lanes high = hn::Load(d, panel_ + k * kPanel + hn::Lanes(d));
#pragma GCC unroll 4
      for (size_t r = 0; r < kRows; ++r) {
        const Lanes x = hn::Set(d, static_cast<Sum>(a[r * row_step]));
        sums[r][0] = hn::Add(sums[r][0], hn::Mul(x, low));
        sums[r][1] = hn::Add(sums[r][1], hn::Mul(x, high));
      }
    }
    HWY_ALIGN Sum row[kPanel];
    for (size_t r = 0; r < kRows; ++r) {
      hn::Store(sums[r][0], d, row);
      hn::Store(sums[r][1], d, row + hn::Lanes(d));
      T* to = c_ + (m + r - call_.m0) * call_.c_stride + (n - call_.n0);
      for (size_t i = 0; i < columns; ++i) {
        const Sum before = call_.adds || first_ != 0 ? static_cast<Sum>(to[i]) : Sum{0};
        to[i] = static_cast<T>(row[i] + before);
      }
    }
  }

  const IntegerProduct& p_;
  const IntegerProductCall& call_;
  const T* a_;
  const T* b_;
  T* c_;
  Sum* panel_;
  size_t first_ = 0, steps_ = 0;  // of k: what the panel has
};

template <class T>
void multiply(const IntegerProduct& product, const IntegerProductCall& call) {
  PanelProduct<T>(product, call).run();
}

}  // namespace

IntegerMultiply find_multiply(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return &multiply<int64_t>;
    case DType::kI32:
      return &multiply<int32_t>;
    case DType::kU8:
      return &multiply<uint8_t>;
    default:
      return nullptr;
  }
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {

HWY_EXPORT(find_multiply);

IntegerMultiply find_integer_multiply(DType dtype) {
  host_isa();  // makes the choice, if nobody has
  return HWY_DYNAMIC_DISPATCH(find_multiply)(dtype);
}

size_t integer_product_scratch(const IntegerProduct& product) {
  constexpr size_t kWidestVector = 64;  // bytes
  return std::min(product.k, kMostSteps) * kPanelVectors * kWidestVector;
}

}  // namespace keel::vector
#endif
