// Tensors of random numbers.
#ifndef KEEL_TESTS_SUPPORT_DRAWN_TENSOR_H
#define KEEL_TESTS_SUPPORT_DRAWN_TENSOR_H

#include <cstdint>

#include "keel/core/base/random.h"
#include "keel/core/tensor/tensor.h"

namespace keel_test {

// Normal numbers of the stream with that key, in f32.
inline keel::Tensor drawn(const keel::Shape& shape, uint64_t key) {
  keel::Tensor t(keel::f32, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.set(i, keel::normal(key, static_cast<uint64_t>(i)));
  return t;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_DRAWN_TENSOR_H
