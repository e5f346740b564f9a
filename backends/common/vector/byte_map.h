// ByteMap: what is applied to bytes as they are loaded: byte x counts as table[x]. Fill the table
// by running the ops that the load replaces over 0..255, then call make_byte_map. Plain values; any
// thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_BYTE_MAP_H
#define KEEL_BACKENDS_COMMON_VECTOR_BYTE_MAP_H

#include <cstdint>

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel::vector {

struct ByteMap {
  enum class Form : uint8_t { kTable, kScale, kAffine, kDivide };
  float table[256] = {};
  Form form = Form::kTable;
  // kScale: x * scale; kAffine: x * scale, rounded, + shift; kDivide: x / scale.
  float scale = 1.0f, shift = 0.0f;
};

// Recognises the shapes that can be computed instead of looked up, with the table's very bits once
// they are rounded to `round_to`, f32 or bf16.
KEEL_API ByteMap make_byte_map(const float* table, DType round_to);

// 1 / divisor to twice the precision of f32: x * high + x * low, in one rounding behind the second
// product's, is the quotient of every byte for the divisors that make_byte_map takes.
struct ByteInverse {
  explicit ByteInverse(float divisor)
      : high(1.0f / divisor),
        low(static_cast<float>(1.0 / static_cast<double>(divisor) - static_cast<double>(high))) {}
  float high, low;
};

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_BYTE_MAP_H
