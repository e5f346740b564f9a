// convert_element: one element from one dtype to another, as the `cast` op
// defines it everywhere (reference, folding, Tensor::cast): floats round to
// nearest even; float to integer truncates and saturates, NaN becomes 0;
// integers wrap; to bool is "not zero".
#ifndef KEEL_CORE_TENSOR_CONVERT_H
#define KEEL_CORE_TENSOR_CONVERT_H

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "keel/core/base/half.h"

namespace keel {

template <class T>
inline constexpr bool is_half_type =
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class To, class From> To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_half_type<From>) {
    return convert_element<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (is_half_type<To>) {
    if constexpr (std::is_same_v<From, float>)
      return To(value);
    else
      return To(static_cast<double>(value));
  } else if constexpr (std::is_integral_v<To> &&
                       std::is_floating_point_v<From>) {
    if (std::isnan(value))
      return To{0};
    const auto wide = static_cast<double>(value);
    // The upper limit of i64 is not a double: compare with the power of two
    // above it.
    const double above = std::ldexp(1.0, std::numeric_limits<To>::digits);
    if (wide >= above)
      return std::numeric_limits<To>::max();
    if (wide <= static_cast<double>(std::numeric_limits<To>::min())) {
      return std::numeric_limits<To>::min();
    }
    return static_cast<To>(wide);
  } else {
    return static_cast<To>(value);
  }
}

} // namespace keel

#endif // KEEL_CORE_TENSOR_CONVERT_H
