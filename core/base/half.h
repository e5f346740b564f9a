// Half (IEEE binary16) and BFloat16: 16-bit storage types with conversions that round to nearest
// even. Arithmetic is done in float by whoever uses them. Own structs because neither compiler here
// has both natively. The conversions choose between values and never branch, so that loops of them
// become vector code.
#ifndef KEEL_CORE_BASE_HALF_H
#define KEEL_CORE_BASE_HALF_H

#include <bit>
#include <cstdint>

namespace keel {

constexpr uint16_t float_to_half_bits(float value) noexcept {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (x >> 16) & 0x8000u;
  const uint32_t magnitude = x & 0x7fffffffu;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 lets the addition round to units of 2^-24, the spacing of half's subnormals.
  constexpr uint32_t kLeastNormal = 0x38800000u;
  const float small = std::bit_cast<float>(magnitude < kLeastNormal ? magnitude : kLeastNormal);
  const uint32_t subnormal = std::bit_cast<uint32_t>(small + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t finite = magnitude < kLeastNormal ? subnormal : normal;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  const uint32_t beyond = magnitude > 0x7f800000u ? nan : 0x7c00u;
  return static_cast<uint16_t>(sign | (magnitude >= 0x477ff000u ? beyond : finite));
}

constexpr float half_bits_to_float(uint16_t bits) noexcept {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  // A subnormal is taken for the fraction of a number with the least exponent, whose leading 1 is
  // subtracted.
  const bool subnormal = magnitude < 0x400u;
  const uint32_t rebased = (magnitude << 13) + (subnormal ? 0x38800000u : 0x38000000u);
  const float finite = std::bit_cast<float>(rebased) - (subnormal ? 0x1p-14f : 0.0f);
  const uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(finite) | special | sign);
}

constexpr uint16_t float_to_bfloat16_bits(float value) noexcept {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
  const uint32_t quiet = (x >> 16) | 0x40u;
  return static_cast<uint16_t>((x & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
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

// Returns a double rounded to float so that a second rounding to 8 or 11 bits gives the correctly
// rounded result ("round to odd": an inexact result gets its last bit set).
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
