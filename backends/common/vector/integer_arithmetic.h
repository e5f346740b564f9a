// Integer instructions on one element: wrapping arithmetic, division by zero giving 0.
// Internal to this folder.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_INTEGER_ARITHMETIC_H
#define KEEL_BACKENDS_COMMON_VECTOR_INTEGER_ARITHMETIC_H

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace keel::vector {

// Arithmetic that wraps is done in the unsigned type, widened to at least 32 bits.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
inline T wrap_add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <class T>
inline T wrap_sub(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <class T>
inline T wrap_mul(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
template <class T>
inline T wrap_neg(T a) {
  return wrap_sub(T(0), a);
}

// Truncates towards zero; the one quotient that does not fit wraps.
template <class T>
inline T truncating_div(T a, T b) {
  if (b == 0) return 0;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return wrap_neg(a);
  return static_cast<T>(a / b);
}

// Returns the rest with the sign of the divisor.
template <class T>
inline T flooring_mod(T a, T b) {
  if (b == 0) return 0;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  const T rest = static_cast<T>(a % b);
  if (rest != 0 && (rest < 0) != (b < 0)) return static_cast<T>(rest + b);
  return rest;
}

template <class T>
inline T wrapping_pow(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return (exponent & 1) != 0 ? T(-1) : T(1);
      return 0;
    }
  }
  T result = 1;
  for (auto left = static_cast<Wrapping<T>>(exponent); left != 0; left >>= 1) {
    if ((left & 1u) != 0) result = wrap_mul(result, base);
    base = wrap_mul(base, base);
  }
  return result;
}

// Returns a float to an integer: truncated, stopped at the ends of the range, NaN to 0.
template <class T, class F>
inline T saturating_cast(F value) {
  constexpr T kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
  if (value != value) return 0;
  if (value <= static_cast<F>(kLow)) return kLow;
  // The upper end may round up to a power of two that T does not hold.
  if (value >= static_cast<F>(kHigh)) return kHigh;
  return static_cast<T>(value);
}

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_INTEGER_ARITHMETIC_H
