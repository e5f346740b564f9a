// Gradients of softmax and its logarithm over the rows of a tile of f32, from the probabilities
// that softmax gives. The order of operations depends on the host ISA and `cols` only. Looked up
// once; calling neither allocates nor throws; any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_GRADIENT_H
#define KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_GRADIENT_H

#include <cstddef>

#include "keel/core/base/export.h"

namespace keel::vector {

// [rows, cols] each, row behind row; dst may be probabilities.
struct SoftmaxGradientCall {
  const float* probabilities = nullptr;
  const float* upstream = nullptr;
  float* dst = nullptr;
  size_t rows = 0;
  size_t cols = 0;
};
using SoftmaxGradientInstruction = void (*)(const SoftmaxGradientCall& call);
// For the host ISA in use, with p the probabilities of a row and dy its upstream gradient:
//   softmax:     dst = (dy - sum(dy * p)) * p
//   log_softmax: dst = dy - sum(dy) * p
KEEL_API SoftmaxGradientInstruction find_softmax_gradient();
KEEL_API SoftmaxGradientInstruction find_log_softmax_gradient();

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_GRADIENT_H
