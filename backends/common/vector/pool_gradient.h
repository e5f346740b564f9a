// The gradient of a maximum over windows of images, in lanes of channels: f32, channels last.
// Looked up once; calling neither allocates nor throws; any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_POOL_GRADIENT_H
#define KEEL_BACKENDS_COMMON_VECTOR_POOL_GRADIENT_H

#include <cstddef>
#include <cstdint>

#include "keel/core/base/export.h"

namespace keel::vector {

// A line of windows, and lines of the image that its taps lie on: there each window's first largest
// element gets what dy has for it. NaN counts as the largest; 0 and -0 tie.
struct MaxGradientCall {
  const float* const* lines =
      nullptr;  // of the image, from the first tap down: [in, channels] each
  size_t line_count = 0;
  // The lines among them whose elements get gradients.
  size_t given = 0, given_count = 1;
  const float* dy = nullptr;  // [windows, channels]
  float* dx = nullptr;        // [given_count, in, channels]
  // Elements under the windows are written where no other window has any of them, else added to.
  bool writes = false;
  size_t channels = 0;
  // Along a line: tap t of window j lies at j * stride + t - low, if that is in [0, in).
  int64_t windows = 0, taps = 1, stride = 1, low = 0, in = 0;
};
using MaxGradientInstruction = void (*)(const MaxGradientCall& call);
// For the host ISA in use.
KEEL_API MaxGradientInstruction find_max_gradient();

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_POOL_GRADIENT_H
