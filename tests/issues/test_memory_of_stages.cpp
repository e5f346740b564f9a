// Stages that keep items asked for the memory of all that they may hold: a cache for 1024 items at
// once, a buffered shuffle and a prefetch for their whole buffer, however few items there were.
// What they could not have was told of as one of a "dataset", without the user's line.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("pipeline");

namespace {

using keel::Dataset;
using keel::DatasetIterator;
using keel::ItemSlot;
using keel::ItemView;
using keel_test::contains;
using keel_test::error_of;
using Numbers = std::vector<int64_t>;

constexpr int64_t kManyItems = 1'000'000;

// `count` items of so many bytes, of which hardly any is touched, and their numbers.
Dataset large(int64_t bytes, int64_t count, std::optional<int64_t> size) {
  return Dataset::from_generator(
      {{{"x", {keel::u8, {bytes}}}, {"n", {keel::i64, {}}}}},
      [count](int64_t index, const ItemSlot& out) {
        out.data<int64_t>(1)[0] = index;
        return index < count;
      },
      size);
}

// The numbers of all items, in their order; the bytes beside them are not asked for.
Numbers numbers_of(const Dataset& items) {
  DatasetIterator iterator(items);
  int64_t number = 0;
  const std::vector<void*> fields = {nullptr, &number};
  Numbers numbers;
  while (iterator.next_into(fields)) numbers.push_back(number);
  return numbers;
}

Numbers up_to(int64_t count) {
  Numbers numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

Numbers sorted(Numbers numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

TEST_CASE("a cache takes no memory for items that do not come") {
  constexpr int64_t kBytes = int64_t{1} << 30;
  CHECK(numbers_of(large(kBytes, 3, 3).cache()) == up_to(3));
  CHECK(numbers_of(large(kBytes, 3, std::nullopt).cache()) == up_to(3));
}

TEST_CASE("a buffered shuffle and a prefetch take no memory for items that do not come") {
  constexpr int64_t kBytes = int64_t{1} << 22;
  for (const std::optional<int64_t> size : {std::optional<int64_t>(9), std::optional<int64_t>()}) {
    const Dataset items = large(kBytes, 9, size);
    CHECK(numbers_of(items.prefetch(kManyItems)) == up_to(9));
    const Numbers shuffled = numbers_of(items.shuffle_buffered(kManyItems, 7));
    CHECK(sorted(shuffled) == up_to(9));
    // A larger buffer than there are items draws as one for all of them does.
    CHECK(shuffled == numbers_of(items.shuffle_buffered(9, 7)));
  }
}

TEST_CASE("stages that keep several blocks of items keep them all") {
  for (const std::optional<int64_t> size :
       {std::optional<int64_t>(7000), std::optional<int64_t>()}) {
    const Dataset items = large(8, 7000, size);
    CHECK(numbers_of(items.cache()) == up_to(7000));
    CHECK(sorted(numbers_of(items.cache().shuffle(3))) == up_to(7000));
    CHECK(numbers_of(items.prefetch(3000)) == up_to(7000));
    const Numbers shuffled = numbers_of(items.shuffle_buffered(3000, 5));
    CHECK(sorted(shuffled) == up_to(7000));
    for (int64_t place = 0; place < 7000; ++place)
      REQUIRE(shuffled[static_cast<size_t>(place)] < place + 3000);
  }
}

TEST_CASE("stages that have no memory name themselves and the line they were made in") {
  const Dataset items = large(int64_t{1} << 50, 3, 3);
  const auto refused = [](const Dataset& kept, const std::string& stage) {
    const std::string error = error_of([&] { numbers_of(kept); });
    CHECK_MESSAGE(contains(error, stage + ": there is no memory for more than the 0 items of "),
                  error);
    CHECK_MESSAGE(contains(error, "test_memory_of_stages.cpp"), error);
  };
  refused(items.cache(), "cache");
  refused(items.prefetch(5), "prefetch");
  refused(items.shuffle_buffered(5, 1), "shuffle_buffered");
}

TEST_SUITE_END();
