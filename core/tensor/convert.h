// convert_element: one element from one dtype to another, as the `cast` op defines it everywhere
// (reference, folding, Tensor::cast): floats round to nearest even; float to integer truncates and
// saturates, NaN becomes 0; integers wrap; to bool is "not zero".
#ifndef KEEL_CORE_TENSOR_CONVERT_H
#define KEEL_CORE_TENSOR_CONVERT_H

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "keel/core/base/half.h"

namespace keel {

template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Returns a 64-bit integer as a double that a second rounding to 8 or 11 bits takes to the
// correctly rounded result ("round to odd", like round_double_to_odd_float).
constexpr double round_integer_to_odd_double(int64_t value) noexcept {
  const bool negative = value < 0;
  uint64_t magnitude =
      negative ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int excess =
      static_cast<int>(std::bit_width(magnitude)) - std::numeric_limits<double>::digits;
  if (excess > 0) {
    const uint64_t kept = magnitude >> excess;
    const bool inexact = kept << excess != magnitude;
    magnitude = (kept | (inexact ? 1u : 0u)) << excess;
  }
  const auto exact = static_cast<double>(magnitude);
  return negative ? -exact : exact;
}

template <class To, class From>
To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_half_type<From>) {
    return convert_element<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (is_half_type<To>) {
    if constexpr (std::is_floating_point_v<From>)
      return To(value);
    else
      return To(round_integer_to_odd_double(static_cast<int64_t>(value)));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if (std::isnan(value)) return To{0};
    constexpr auto low = static_cast<From>(std::numeric_limits<To>::min());
    if (value <= low) return std::numeric_limits<To>::min();
    // The upper limit may have more digits than From: compare with the power of two above it.
    constexpr auto above =
        2 * static_cast<From>(int64_t{1} << (std::numeric_limits<To>::digits - 1));
    if (value >= above) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace keel

#endif  // KEEL_CORE_TENSOR_CONVERT_H
