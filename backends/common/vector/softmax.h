// Softmax over the rows of a tile of f32 or f64, plain, as logarithm, and fused with the cross
// entropy and its gradient. Stable: the row's maximum is subtracted first. The order of operations
// depends on the host ISA and `cols` only. Looked up once; calling neither allocates nor throws;
// any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_H
#define KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_H

#include <cstddef>
#include <cstdint>

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel::vector {

// [rows, cols] of the instruction's dtype, rows `stride` elements apart; dst may be src with the
// same stride.
struct SoftmaxCall {
  const void* src = nullptr;
  size_t stride = 0;
  void* dst = nullptr;
  size_t dst_stride = 0;
  size_t rows = 0;
  size_t cols = 0;
};
using SoftmaxInstruction = void (*)(const SoftmaxCall& call);
// For the host ISA in use; nullptr but for f32 and f64.
KEEL_API SoftmaxInstruction find_softmax(DType dtype);
KEEL_API SoftmaxInstruction find_log_softmax(DType dtype);

// With p = softmax(logits[r]) and q = (1 - smoothing) * onehot(labels[r]) + smoothing / cols:
//   loss[r] = -sum(q * log p)
//   gradient[r] = (p - q) * scale
// Outputs that are null are left out; gradient may be logits with the same stride.
struct CrossEntropyCall {
  const void* logits = nullptr;
  size_t stride = 0;
  size_t rows = 0;
  size_t cols = 0;
  const void* labels = nullptr;  // [rows] class ids
  DType label_dtype = i32;       // i64, i32 or u8
  double smoothing = 0.0;
  double scale = 1.0;
  void* loss = nullptr;  // [rows]
  void* gradient = nullptr;
  size_t gradient_stride = 0;
};
// Returns -1, or the first row whose label lies outside [0, cols), and then has written nothing.
using CrossEntropyInstruction = int64_t (*)(const CrossEntropyCall& call);
KEEL_API CrossEntropyInstruction find_softmax_cross_entropy(DType dtype);

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_H
