#include "keel/core/tensor/canonical_nan.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>

namespace keel {
namespace {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 8, uint64_t,
                                  std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;

// `infinity`: its bits, which those of every NaN exceed but for the sign.
template <class T, class Bits = BitsOf<T>>
void canonicalise(std::span<T> values, Bits infinity) {
  constexpr size_t kRun = 1024;
  constexpr Bits magnitude = std::numeric_limits<Bits>::max() >> 1;
  // The highest bit of the significand tells a quiet NaN.
  const auto nan = static_cast<Bits>(infinity | (Bits{1} << std::countr_zero(infinity)) >> 1);
  for (size_t begin = 0; begin < values.size(); begin += kRun) {
    const size_t end = std::min(begin + kRun, values.size());
    // A look first: a run without NaN is not written.
    Bits largest = 0;
    for (size_t i = begin; i < end; ++i) {
      largest = std::max(largest, static_cast<Bits>(std::bit_cast<Bits>(values[i]) & magnitude));
    }
    if (largest <= infinity) continue;
    for (size_t i = begin; i < end; ++i) {
      const auto bits = static_cast<Bits>(std::bit_cast<Bits>(values[i]) & magnitude);
      if (bits > infinity) values[i] = std::bit_cast<T>(nan);
    }
  }
}

}  // namespace

void canonicalise_nans(Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kF64:
      return canonicalise(tensor.data<double>(), uint64_t{0x7ff0000000000000});
    case DType::kF32:
      return canonicalise(tensor.data<float>(), uint32_t{0x7f800000});
    case DType::kF16:
      return canonicalise(tensor.data<Half>(), uint16_t{0x7c00});
    case DType::kBF16:
      return canonicalise(tensor.data<BFloat16>(), uint16_t{0x7f80});
    default:
      return;
  }
}

}  // namespace keel
