// Integer products in lanes: C = A B in i64, i32 or u8, each sum wrapping in its own
// dtype as all integer arithmetic does; so the order in which it is added changes nothing. Neither
// allocates nor throws; any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_INTEGER_PRODUCT_H
#define KEEL_BACKENDS_COMMON_VECTOR_INTEGER_PRODUCT_H

#include <cstddef>
#include <cstdint>

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel::vector {

// One matrix product of row-major operands; a transposed one is stored the other way round, [k, m]
// or [n, k].
struct IntegerProduct {
  size_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
};

// Computes C[m0..m1, n0..n1], from `c` on in rows that lie `c_stride` elements apart. `scratch` is
// aligned to 64 bytes and used by this call alone.
struct IntegerProductCall {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  size_t c_stride = 0;
  size_t m0 = 0, m1 = 0, n0 = 0, n1 = 0;
  bool adds = false;  // to what C holds, instead of beginning with 0
  void* scratch = nullptr;
};

using IntegerMultiply = void (*)(const IntegerProduct& product, const IntegerProductCall& call);

// nullptr where the dtype is no integer.
KEEL_API IntegerMultiply find_integer_multiply(DType dtype);
// Returns the bytes of scratch that a call needs, on any host ISA: some steps of k of a few columns
// of B, in the type that sums are kept in.
KEEL_API size_t integer_product_scratch(const IntegerProduct& product);

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_INTEGER_PRODUCT_H
