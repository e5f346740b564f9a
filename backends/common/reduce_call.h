// ReduceCall: one reduction instruction over a tile; what reduction kernels are made of. Each
// backend brings its own instructions. Each has one fixed order of operations that depends on the
// number of elements only, never on addresses.
#ifndef KEEL_BACKENDS_COMMON_REDUCE_CALL_H
#define KEEL_BACKENDS_COMMON_REDUCE_CALL_H

#include <cstddef>
#include <functional>
#include <string_view>

#include "keel/core/base/dtype.h"

namespace keel {

// Accumulators are f64 for f64, f32 for the other floats, i64 (wrapping) for integers and bool.
constexpr DType accumulator_of(DType dtype) noexcept {
  if (dtype == f64) return f64;
  return is_float(dtype) ? f32 : i64;
}

// A [rows, cols] tile whose rows lie `stride` elements apart.
struct ReduceCall {
  const void* src = nullptr;
  size_t rows = 1;
  size_t cols = 0;
  size_t stride = 0;
  void* dst = nullptr;  // accumulators, see the two forms below
};
using ReduceInstruction = void (*)(const ReduceCall& call);

// An instruction of one op (sum, prod, max, min) and dtype:
//   rows:     dst[r] = op over row r; dst has `rows` accumulators. A contiguous run is one row.
//   columns:  dst[c] = dst[c] op src[0, c] op src[1, c] ... in row order; dst has `cols`
//   accumulators, set before. identity: writes the op's identity to one accumulator. merge: columns
//   over accumulators instead of elements.
struct ReduceInstructions {
  ReduceInstruction rows = nullptr;
  ReduceInstruction columns = nullptr;
  ReduceInstruction merge = nullptr;
  void (*identity)(std::string_view op, DType dtype, void* accumulator) = nullptr;
  bool complete() const noexcept {
    return rows != nullptr && columns != nullptr && merge != nullptr;
  }
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_REDUCE_CALL_H
