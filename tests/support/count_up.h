// Tensors whose elements are their own places.
#ifndef KEEL_TESTS_SUPPORT_COUNT_UP_H
#define KEEL_TESTS_SUPPORT_COUNT_UP_H

#include <cstdint>

#include "keel/core/tensor/tensor.h"

namespace keel_test {

// 0, 1, 2 and so on in f32.
inline keel::Tensor count_up(const keel::Shape& shape) {
  keel::Tensor t(keel::f32, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, static_cast<double>(i));
  return t;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_COUNT_UP_H
