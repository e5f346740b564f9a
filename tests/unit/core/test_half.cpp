// Half and BFloat16 against arithmetic that does not use their code.
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <doctest/doctest.h>

#include "keel/core/base/half.h"

namespace {

using keel::BFloat16;
using keel::Half;

struct HalfFormat {
  using Type = Half;
  static constexpr int kMantissa = 10;
  static constexpr int kExponentBits = 5;
};
struct BFloat16Format {
  using Type = BFloat16;
  static constexpr int kMantissa = 7;
  static constexpr int kExponentBits = 8;
};

// The value that IEEE 754 gives to a bit pattern, from its definition.
template <class F>
long double value_of(uint32_t bits) {
  const int bias = (1 << (F::kExponentBits - 1)) - 1;
  const uint32_t mantissa = bits & ((1u << F::kMantissa) - 1);
  const int exponent = static_cast<int>((bits >> F::kMantissa) & ((1u << F::kExponentBits) - 1));
  const long double sign = (bits >> 15) != 0 ? -1.0L : 1.0L;
  if (exponent == (1 << F::kExponentBits) - 1) {
    if (mantissa != 0) return std::numeric_limits<long double>::quiet_NaN();
    return sign * std::numeric_limits<long double>::infinity();
  }
  if (exponent == 0)
    return sign * std::ldexp(static_cast<long double>(mantissa), 1 - bias - F::kMantissa);
  return sign * std::ldexp(static_cast<long double>(mantissa | (1u << F::kMantissa)),
                           exponent - bias - F::kMantissa);
}

template <class F>
constexpr uint32_t infinity_bits() {
  return ((1u << F::kExponentBits) - 1) << F::kMantissa;
}

// The half-way point between the finite magnitude `bits` and the next one (past the largest: where
// infinity begins).
template <class F>
long double midpoint(uint32_t bits) {
  const long double low = value_of<F>(bits);
  if (bits + 1 != infinity_bits<F>()) return (low + value_of<F>(bits + 1)) / 2;
  return low + (low - value_of<F>(bits - 1)) / 2;
}

template <class F>
void check_widening() {
  using T = typename F::Type;
  int wrong = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float got = T::from_bits(static_cast<uint16_t>(bits));
    const long double expected = value_of<F>(bits);
    const bool same = std::isnan(expected)
                          ? std::isnan(got) && std::signbit(got) == (bits >= 32768)
                          : got == expected && std::signbit(got) == (bits >= 32768);
    wrong += same ? 0 : 1;
    // Back again: the same bits, but for NaN, which becomes quiet and keeps its sign.
    const uint32_t from_float = T(got).bits;
    const uint32_t from_double = T(static_cast<double>(got)).bits;
    const uint32_t back = std::isnan(expected) ? bits | (1u << (F::kMantissa - 1)) : bits;
    wrong += from_float == back ? 0 : 1;
    wrong += from_double == back ? 0 : 1;
  }
  CHECK(wrong == 0);
}

template <class F>
void check_rounding() {
  using T = typename F::Type;
  int wrong = 0;
  const auto expect = [&](double value, uint32_t bits) {
    if (T(value).bits != bits || T(-value).bits != (bits | 0x8000u)) ++wrong;
    // Where a float holds the value, it must round alike.
    const auto single = static_cast<float>(value);
    if (static_cast<double>(single) == value &&
        (T(single).bits != bits || T(-single).bits != (bits | 0x8000u)))
      ++wrong;
  };
  for (uint32_t bits = 0; bits < infinity_bits<F>(); ++bits) {
    const auto middle = static_cast<double>(midpoint<F>(bits));
    const double infinity = std::numeric_limits<double>::infinity();
    expect(middle, bits % 2 == 0 ? bits : bits + 1);  // ties to even
    // One double away from the tie: a float in between would hide it.
    expect(std::nextafter(middle, 0.0), bits);
    expect(std::nextafter(middle, infinity), bits + 1);
    const auto single = static_cast<float>(middle);
    expect(static_cast<double>(std::nextafter(single, 0.0f)), bits);
    const float above = std::nextafter(single, std::numeric_limits<float>::infinity());
    if (std::isfinite(above)) expect(static_cast<double>(above), bits + 1);
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("all 65536 halves widen exactly and come back") { check_widening<HalfFormat>(); }
TEST_CASE("all 65536 bfloat16 widen exactly and come back") { check_widening<BFloat16Format>(); }
TEST_CASE("half rounds to nearest even on both sides of every tie") {
  check_rounding<HalfFormat>();
}
TEST_CASE("bfloat16 rounds to nearest even on both sides of every tie") {
  check_rounding<BFloat16Format>();
}

TEST_CASE("half and bfloat16 saturate to infinity and underflow to zero") {
  const double huge = std::numeric_limits<double>::max();
  const double tiny = std::numeric_limits<double>::denorm_min();
  CHECK(Half(huge).bits == 0x7c00);
  CHECK(Half(-huge).bits == 0xfc00);
  CHECK(Half(65519.99).bits == 0x7bff);
  CHECK(Half(65520.0).bits == 0x7c00);
  CHECK(Half(tiny).bits == 0);
  CHECK(Half(-tiny).bits == 0x8000);
  CHECK(BFloat16(huge).bits == 0x7f80);
  CHECK(BFloat16(-huge).bits == 0xff80);
  CHECK(BFloat16(tiny).bits == 0);
  CHECK(BFloat16(-tiny).bits == 0x8000);
  CHECK(BFloat16(std::numeric_limits<float>::denorm_min()).bits == 0);
  CHECK(Half(std::numeric_limits<float>::infinity()).bits == 0x7c00);
  CHECK(BFloat16(-std::numeric_limits<float>::infinity()).bits == 0xff80);
}

TEST_CASE("half and bfloat16 keep NaN a NaN whatever its payload") {
  for (const uint32_t bits :
       {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7f802000u}) {
    const auto value = std::bit_cast<float>(bits);
    CHECK(std::isnan(static_cast<float>(Half(value))));
    CHECK(std::isnan(static_cast<float>(BFloat16(value))));
  }
  CHECK(std::isnan(static_cast<float>(Half(std::nan("")))));
  CHECK(std::isnan(static_cast<float>(BFloat16(std::nan("")))));
}

TEST_SUITE_END();
