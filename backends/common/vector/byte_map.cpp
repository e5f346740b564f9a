// Recognises what a table of 256 values computes.
#include "keel/backends/common/vector/byte_map.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "keel/core/base/half.h"

namespace keel::vector {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// Returns whether value(x) counts as table[x] for every byte x, once both are rounded.
template <class F>
bool matches(const float* table, DType round_to, F value) {
  const auto rounded = [&](float v) {
    return round_to == bf16 ? static_cast<float>(BFloat16(v)) : v;
  };
  for (int x = 0; x < 256; ++x) {
    if (!same_bits(rounded(table[x]), rounded(value(static_cast<float>(x))))) return false;
  }
  return true;
}

// Returns the quotient as vectors with fused multiply-add compute it: with the inverse in two
// parts.
float quotient_by_parts(float x, float divisor) {
  const ByteInverse inverse(divisor);
  return std::fma(x, inverse.high, x * inverse.low);
}

}  // namespace

ByteMap make_byte_map(const float* table, DType round_to) {
  ByteMap map;
  std::memcpy(map.table, table, sizeof(map.table));
  const auto take = [&](ByteMap::Form form, float scale, float shift) {
    map.form = form;
    map.scale = scale;
    map.shift = shift;
    return map;
  };
  const auto is = [&](auto value) { return matches(table, round_to, value); };
  const float shift = table[0], scale = table[1] - table[0];
  if (is([&](float x) { return x * scale; })) return take(ByteMap::Form::kScale, scale, 0.0f);
  if (is([&](float x) { return x * scale + shift; })) {
    return take(ByteMap::Form::kAffine, scale, shift);
  }
  const float divisor = std::round(1.0f / table[1]);
  if (std::isfinite(divisor) && divisor != 0.0f && is([&](float x) { return x / divisor; }) &&
      is([&](float x) { return quotient_by_parts(x, divisor); })) {
    return take(ByteMap::Form::kDivide, divisor, 0.0f);
  }
  return map;
}

}  // namespace keel::vector
