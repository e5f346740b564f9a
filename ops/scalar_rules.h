// The corner rules of arithmetic on single elements, as ops/README.md fixes them, for the
// references and for kernels that compute element by element: integers wrap, division by zero gives
// 0, NaN propagates through maximum and minimum, -0 is smaller than 0, mod has the divisor's sign.
// T is double, float or an integer type. Pure functions; any thread.
#ifndef KEEL_OPS_SCALAR_RULES_H
#define KEEL_OPS_SCALAR_RULES_H

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace keel::scalar {

template <class T>
constexpr T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}

template <class T>
constexpr T sub(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) - static_cast<U>(b)));
  } else {
    return a - b;
  }
}

template <class T>
constexpr T mul(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) * static_cast<U>(b)));
  } else {
    return a * b;
  }
}

template <class T>
constexpr T neg(T a) {
  if constexpr (std::is_integral_v<T>)
    return sub(T{0}, a);
  else
    return -a;
}

// Integers truncate towards zero; by zero is 0; the lowest value by -1 wraps to itself.
template <class T>
constexpr T div(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return T{0};
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return neg(a);
    }
    return static_cast<T>(a / b);
  } else {
    return a / b;
  }
}

// a - floor(a / b) * b, exactly: the sign of b. Integers by zero give 0, floats NaN.
template <class T>
T mod(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return T{0};
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return T{0};
      const T r = static_cast<T>(a % b);
      return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
    } else {
      return static_cast<T>(a % b);
    }
  } else {
    const T r = std::fmod(a, b);
    if (r == 0) return std::copysign(r, b);
    return (r < 0) != (b < 0) ? r + b : r;
  }
}

// Integers: repeated squaring that wraps; a negative exponent gives 0, but for the bases 1 and -1.
// Floats: 1 to the power of NaN, and NaN to the power of 0, are 1; C leaves signalling ones open.
template <class T>
T pow(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (b < 0) {
        if (a == 1) return T{1};
        if (a == -1) return b % 2 == 0 ? T{1} : T{-1};
        return T{0};
      }
    }
    T result{1};
    T square = a;
    for (T e = b; e != 0; e = static_cast<T>(e / 2)) {
      if (e % 2 != 0) result = mul(result, square);
      square = mul(square, square);
    }
    return result;
  } else {
    return a == T{1} || b == T{0} ? T{1} : std::pow(a, b);
  }
}

template <class T>
using FloatBits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Returns the larger; NaN where either is NaN; 0 is larger than -0. Where the operands are equal,
// `first` is one of them and `second` the other, whose bits differ in zeros only. Written so that
// compilers make vector instructions of it.
template <class T>
constexpr T maximum(T a, T b) {
  const T first = a < b ? b : a;
  if constexpr (std::is_integral_v<T>) {
    return first;
  } else {
    using Bits = FloatBits<T>;
    const T second = b < a ? a : b;
    const T larger = std::bit_cast<T>(std::bit_cast<Bits>(first) & std::bit_cast<Bits>(second));
    // NOLINTNEXTLINE(misc-redundant-expression): a call of isnan would keep it from lanes.
    return a != a || b != b ? a + b : larger;
  }
}

// Returns the smaller, likewise. Of NaN and a number, the bits of both are those of a NaN.
template <class T>
constexpr T minimum(T a, T b) {
  const T first = b < a ? b : a;
  if constexpr (std::is_integral_v<T>) {
    return first;
  } else {
    using Bits = FloatBits<T>;
    const T second = a < b ? a : b;
    return std::bit_cast<T>(std::bit_cast<Bits>(first) | std::bit_cast<Bits>(second));
  }
}

template <class T>
constexpr T abs(T a) {
  if constexpr (std::is_unsigned_v<T>)
    return a;
  else if constexpr (std::is_integral_v<T>)
    return a < 0 ? neg(a) : a;
  else
    return std::fabs(a);
}

// -1, 0 or 1; a zero keeps its sign, NaN stays NaN.
template <class T>
constexpr T sign(T a) {
  if constexpr (std::is_unsigned_v<T>)
    return a != 0 ? T{1} : T{0};
  else if (a > 0)
    return T{1};
  else if (a < 0)
    return T{-1};
  else
    return a;
}

// 0 for negative numbers; NaN stays NaN.
template <class T>
constexpr T relu(T a) {
  if constexpr (std::is_unsigned_v<T>)
    return a;
  else
    return a <= 0 ? T{0} : a;
}

// 1 / (1 + exp(-a)) without overflow.
inline double sigmoid(double a) {
  if (a >= 0) return 1.0 / (1.0 + std::exp(-a));
  const double e = std::exp(a);
  return e / (1.0 + e);
}

// log(1 + exp(a)) without overflow, and with all digits where exp(a) is small.
inline double softplus(double a) { return (a > 0 ? a : 0) + std::log1p(std::exp(-std::fabs(a))); }

// x * Phi(x), with erfc so that results near 0 keep their digits.
inline double gelu(double a) {
  if (a == -std::numeric_limits<double>::infinity()) return -0.0;
  return 0.5 * a * std::erfc(-a * 0.70710678118654752440);
}

}  // namespace keel::scalar

#endif  // KEEL_OPS_SCALAR_RULES_H
