// Reads data sets of whole numbers, for tests of what they yield and of where they stand.
#ifndef KEEL_TESTS_SUPPORT_READ_DATASET_H
#define KEEL_TESTS_SUPPORT_READ_DATASET_H

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"

namespace keel_test {

// The numbers of the first field in all elements, one after another.
inline std::vector<int64_t> all_numbers(const keel::Dataset& dataset) {
  keel::DatasetIterator iterator(dataset);
  std::vector<int64_t> numbers;
  while (const auto element = iterator.next()) {
    for (const int64_t n : (*element)[0].data<int64_t>()) numbers.push_back(n);
  }
  return numbers;
}

// The cursor behind so many elements, which the data set must have.
inline keel::Cursor cursor_behind(const keel::Dataset& dataset, int elements) {
  keel::DatasetIterator iterator(dataset);
  for (int i = 0; i < elements; ++i) REQUIRE(iterator.next());
  return iterator.cursor();
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_READ_DATASET_H
