// Shuffles of so many items that their permutation is computed item by item and not written out.
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"

TEST_SUITE_BEGIN("pipeline");

TEST_CASE("shuffles of millions of items give each once an epoch and epochs their own orders") {
  constexpr int64_t kItems = 5'000'000;
  constexpr int64_t kBatch = 20'000;
  keel::Tensor items(keel::i64, {kItems});
  std::iota(items.data<int64_t>().begin(), items.data<int64_t>().end(), int64_t{0});
  const keel::Dataset shuffled =
      keel::Dataset::from_tensors({{"n", items}}).shuffle(7).repeat(2).batch(kBatch);
  keel::DatasetIterator iterator(shuffled);
  std::vector<int64_t> last(kItems, -1);  // the place of each item in the epoch before
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t> place(kItems, -1);
    int64_t given = 0, fixed = 0, as_before = 0;
    for (int64_t at = 0; at < kItems;) {
      const auto element = iterator.next();
      REQUIRE(element);
      for (const int64_t item : (*element)[0].data<int64_t>()) {
        given += place[static_cast<size_t>(item)] < 0 ? 1 : 0;
        fixed += item == at ? 1 : 0;
        as_before += last[static_cast<size_t>(item)] == at ? 1 : 0;
        place[static_cast<size_t>(item)] = at++;
      }
    }
    CHECK(given == kItems);
    // A random order leaves one item at its place on average, and more than 12 once in 10^10.
    CHECK(fixed <= 12);
    CHECK(as_before <= 12);
    last = place;
  }
  CHECK_FALSE(iterator.next());
}

TEST_SUITE_END();
