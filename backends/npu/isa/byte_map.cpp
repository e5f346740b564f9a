// Recognising what a table of 256 values computes.
#include <cmath>
#include <cstring>

#include "keel/backends/npu/isa/cube.h"

namespace keel::npu {
namespace {

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof(float)) == 0; }

template <class F>
bool matches(const float* table, F value) {
  for (int x = 0; x < 256; ++x) {
    if (!same_bits(table[x], value(static_cast<float>(x)))) return false;
  }
  return true;
}

// The quotient as vectors with fused multiply-add compute it: with the inverse in two parts.
float quotient_by_parts(float x, float divisor) {
  const ByteInverse inverse(divisor);
  return std::fma(x, inverse.high, x * inverse.low);
}

}  // namespace

ByteMap make_byte_map(const float* table) {
  ByteMap map;
  std::memcpy(map.table, table, sizeof(map.table));
  const float shift = table[0], scale = table[1] - table[0];
  if (matches(table, [&](float x) { return x * scale + shift; })) {
    map.form = ByteMap::Form::kAffine;
    map.scale = scale;
    map.shift = shift;
    return map;
  }
  const float divisor = std::round(1.0f / table[1]);
  if (std::isfinite(divisor) && divisor != 0.0f &&
      matches(table, [&](float x) { return x / divisor; }) &&
      matches(table, [&](float x) { return quotient_by_parts(x, divisor); })) {
    map.form = ByteMap::Form::kDivide;
    map.scale = divisor;
  }
  return map;
}

}  // namespace keel::npu
