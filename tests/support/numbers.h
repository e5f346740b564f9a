// A data set of numbers in order, whose items tell by themselves which ones were yielded.
#ifndef KEEL_TESTS_SUPPORT_NUMBERS_H
#define KEEL_TESTS_SUPPORT_NUMBERS_H

#include <cstdint>
#include <numeric>

#include "keel/data/pipeline/dataset.h"

namespace keel_test {

// Returns first, first + 1 and so on, `count` of them, as scalars of the field "n".
inline keel::Dataset numbers(int64_t count, int64_t first = 0) {
  keel::Tensor tensor(keel::i64, {count});
  std::iota(tensor.data<int64_t>().begin(), tensor.data<int64_t>().end(), first);
  return keel::Dataset::from_tensors({{"n", tensor}});
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_NUMBERS_H
