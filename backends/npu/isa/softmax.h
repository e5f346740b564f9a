// Softmax over the rows of an f32 tile, plain, as logarithm, and fused with the cross entropy and
// its gradient. Stable: the row's maximum is subtracted first. The order of operations depends on
// the host ISA and `cols` only. Looked up once; calling neither allocates nor throws; any thread.
#ifndef KEEL_BACKENDS_NPU_ISA_SOFTMAX_H
#define KEEL_BACKENDS_NPU_ISA_SOFTMAX_H

#include <cstddef>
#include <cstdint>

#include "keel/core/base/dtype.h"

namespace keel::npu {

// [rows, cols], rows `stride` elements apart; dst may be src with the same stride.
struct SoftmaxCall {
  const float* src = nullptr;
  size_t stride = 0;
  float* dst = nullptr;
  size_t dst_stride = 0;
  size_t rows = 0;
  size_t cols = 0;
};
using SoftmaxInstruction = void (*)(const SoftmaxCall& call);
SoftmaxInstruction find_softmax();
SoftmaxInstruction find_log_softmax();

// With p = softmax(logits[r]) and q = (1 - smoothing) * onehot(labels[r]) + smoothing / cols:
//   loss[r] = -sum(q * log p)
//   gradient[r] = (p - q) * scale
// Outputs that are null are left out; gradient may be logits with the same stride.
struct CrossEntropyCall {
  const float* logits = nullptr;
  size_t stride = 0;
  size_t rows = 0;
  size_t cols = 0;
  const void* labels = nullptr;  // [rows] class ids
  DType label_dtype = i32;       // i64, i32 or u8
  float smoothing = 0.0f;
  float scale = 1.0f;
  float* loss = nullptr;  // [rows]
  float* gradient = nullptr;
  size_t gradient_stride = 0;
};
// Returns -1, or the first row whose label lies outside [0, cols), and then has written nothing.
using CrossEntropyInstruction = int64_t (*)(const CrossEntropyCall& call);
CrossEntropyInstruction find_softmax_cross_entropy();

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_ISA_SOFTMAX_H
