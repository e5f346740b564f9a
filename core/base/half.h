// Half (IEEE binary16) and BFloat16: 16-bit storage types with conversions that round to nearest
// even. Arithmetic is done in float by whoever uses them. Own structs because neither compiler here
// has both natively.
#ifndef KEEL_CORE_BASE_HALF_H
#define KEEL_CORE_BASE_HALF_H

#include <bit>
#include <cstdint>

namespace keel {

constexpr uint16_t float_to_half_bits(float value) noexcept {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (x >> 16) & 0x8000u;
  const uint32_t magnitude = x & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x477ff000u)
    return static_cast<uint16_t>(sign | 0x7c00u);  // rounds beyond 65504
  if (magnitude < 0x38800000u) {                   // subnormal or zero in half
    if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);
    const uint32_t exponent = magnitude >> 23;
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t shift = 126u - exponent;  // mantissa * 2^-shift counts units of 2^-24
    const uint32_t half = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1u);
    const uint32_t tie = 1u << (shift - 1u);
    const uint32_t up = (rest > tie || (rest == tie && (half & 1u) != 0u)) ? 1u : 0u;
    return static_cast<uint16_t>(sign | (half + up));
  }
  const uint32_t rebased = magnitude - 0x38000000u;
  const uint32_t rounded = rebased + 0xfffu + ((rebased >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

constexpr float half_bits_to_float(uint16_t bits) noexcept {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0u) {
    const float units = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0u ? -units : units;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

constexpr uint16_t float_to_bfloat16_bits(float value) noexcept {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((x >> 16) | 0x40u);
  return static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
}

// Rounds a double in one step (through float it would round twice).
constexpr uint16_t double_to_half_bits(double value) noexcept;
constexpr uint16_t double_to_bfloat16_bits(double value) noexcept;

struct Half {
  uint16_t bits = 0;

  constexpr Half() noexcept = default;
  constexpr explicit Half(float value) noexcept : bits(float_to_half_bits(value)) {}
  constexpr explicit Half(double value) noexcept : bits(double_to_half_bits(value)) {}
  constexpr operator float() const noexcept { return half_bits_to_float(bits); }
  static constexpr Half from_bits(uint16_t b) noexcept {
    Half h;
    h.bits = b;
    return h;
  }
};

struct BFloat16 {
  uint16_t bits = 0;

  constexpr BFloat16() noexcept = default;
  constexpr explicit BFloat16(float value) noexcept : bits(float_to_bfloat16_bits(value)) {}
  constexpr explicit BFloat16(double value) noexcept : bits(double_to_bfloat16_bits(value)) {}
  constexpr operator float() const noexcept {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  static constexpr BFloat16 from_bits(uint16_t b) noexcept {
    BFloat16 h;
    h.bits = b;
    return h;
  }
};

// A double rounded to float so that a second rounding to 8 or 11 bits gives the correctly rounded
// result ("round to odd": an inexact result gets its last bit set).
constexpr float round_double_to_odd_float(double value) noexcept {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || nearest != nearest) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const bool beyond = (nearest < 0 ? -static_cast<double>(nearest) : static_cast<double>(nearest)) >
                      (value < 0 ? -value : value);
  if (beyond) --bits;  // towards zero; an infinity becomes the largest float
  return std::bit_cast<float>(bits | 1u);
}

constexpr uint16_t double_to_half_bits(double value) noexcept {
  return float_to_half_bits(round_double_to_odd_float(value));
}
constexpr uint16_t double_to_bfloat16_bits(double value) noexcept {
  return float_to_bfloat16_bits(round_double_to_odd_float(value));
}

}  // namespace keel

#endif  // KEEL_CORE_BASE_HALF_H
