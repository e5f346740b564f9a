// A repeat without end inside of another one shuffled an outer pass as it had passes before, and
// cursors behind joined batches named other items for another batch size.
#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/random.h"
#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"

#include "support/error_of.h"
#include "support/numbers.h"
#include "support/read_dataset.h"

TEST_SUITE_BEGIN("data");

namespace {

using namespace keel;
using keel_test::all_numbers;
using keel_test::contains;
using keel_test::cursor_behind;
using keel_test::error_of;
using keel_test::numbers;
using Numbers = std::vector<int64_t>;

Numbers flat(const std::vector<Tensor>& element) {
  const auto values = element[0].data<int64_t>();
  return {values.begin(), values.end()};
}

Numbers rest_of(DatasetIterator& iterator) {
  Numbers rest;
  while (const auto element = iterator.next()) {
    for (const int64_t n : flat(*element)) rest.push_back(n);
  }
  return rest;
}

// Counts how many of the passes of `size` items are of an order that no other has; each part of
// `outer` items begins with a new pass, and what its end cuts off is left out.
size_t orders(const Numbers& items, size_t size, size_t outer) {
  std::set<Numbers> orders;
  for (size_t part = 0; part < items.size(); part += outer) {
    for (size_t at = part; at + size <= part + outer; at += size) {
      const auto begin = items.begin() + static_cast<std::ptrdiff_t>(at);
      orders.insert(Numbers(begin, begin + static_cast<std::ptrdiff_t>(size)));
    }
  }
  return orders.size();
}

// The rest behind the cursor, however the first elements are passed over.
void check_resumes(const Dataset& dataset, int elements) {
  DatasetIterator whole(dataset);
  for (int i = 0; i < elements; ++i) REQUIRE(whole.next());
  DatasetIterator resumed(dataset);
  resumed.restore(whole.cursor());
  CHECK(rest_of(resumed) == rest_of(whole));
}

}  // namespace

TEST_CASE("each pass inside of an endless repeat that is repeated is shuffled anew") {
  const Dataset shuffled = numbers(20).shuffle(3);
  const Dataset twice = shuffled.repeat().take(50);
  const Numbers items = all_numbers(twice.repeat(4));
  REQUIRE(items.size() == 200);
  CHECK(orders(items, 20, 50) == 8);
  // The first outer pass goes through the rounds from 0 up.
  for (uint64_t round = 0; round < 2; ++round) {
    const auto order = shuffled_indices(20, fold_key(3, round));
    CHECK(std::equal(order.begin(), order.end(),
                     items.begin() + static_cast<std::ptrdiff_t>(20 * round)));
  }
  for (int elements = 0; elements < 200; elements += 7) check_resumes(twice.repeat(4), elements);
  // Deeper, and where the numbers of passes do not fit 64 bits.
  CHECK(orders(all_numbers(twice.repeat().take(150).repeat(3)), 20, 50) == 18);
  const Dataset unsized = shuffled.filter([](const ItemView&) { return true; });
  const int64_t many = int64_t{1} << 62;
  CHECK(orders(all_numbers(unsized.repeat(many).take(40).repeat(6)), 20, 40) == 12);
  CHECK(orders(all_numbers(shuffled.repeat(2).repeat(4)), 20, 40) == 8);
}

TEST_CASE("cursors behind joined batches let no other batch size in") {
  const auto concatenated = [](int64_t batch) {
    return numbers(20).batch(batch).concatenate(numbers(22, 100).batch(batch));
  };
  const auto interleaved = [](int64_t batch) {
    return Dataset::interleave({numbers(20).batch(batch), numbers(22, 100).batch(batch)}, 2);
  };
  const auto zipped = [](int64_t batch) {
    return Dataset::zip(
        {numbers(20).batch(4), Dataset::from_tensors({{"m", Tensor(i64, {20})}}).batch(batch)});
  };
  for (const auto& [two, four] :
       {std::pair(concatenated(2), concatenated(4)), std::pair(interleaved(2), interleaved(4)),
        std::pair(zipped(2), zipped(5))}) {
    for (int elements = 0; elements < 4; ++elements) check_resumes(two, elements);
    const Cursor cursor = cursor_behind(two, 2);
    DatasetIterator other(four);
    CHECK(contains(error_of([&] { other.restore(cursor); }), "batches what it joins"));
    check_resumes(two.prefetch(3).repeat(2), 5);
  }
  const auto with_tail = [](Tail tail) {
    const Dataset last = numbers(8, 100).batch(4, tail).select({"n"});
    return numbers(10).batch(4, tail).select({"n"}).concatenate(last);
  };
  DatasetIterator padded(with_tail(Tail::kPad));
  const Cursor dropping = cursor_behind(with_tail(Tail::kDrop), 3);
  CHECK(contains(error_of([&] { padded.restore(dropping); }), "batches what it joins"));
  for (int elements = 8; elements < 14; ++elements) check_resumes(concatenated(2), elements);
  // Cursors count items, where the parts' batches are of one size.
  CHECK(cursor_behind(concatenated(2), 3).position == 6);
}

TEST_CASE("batches of joined parts and zipped batches of one size take another batch size") {
  const auto batched = [](int64_t batch) {
    return numbers(20).concatenate(numbers(20, 100)).batch(batch);
  };
  const auto zipped = [](int64_t batch) {
    return Dataset::zip(
        {numbers(20).batch(batch), Dataset::from_tensors({{"m", Tensor(i64, {20})}}).batch(batch)});
  };
  for (const auto& [two, four] :
       {std::pair(batched(2), batched(4)), std::pair(zipped(2), zipped(4))}) {
    DatasetIterator resumed(four);
    resumed.restore(cursor_behind(two, 2));
    const auto element = resumed.next();
    REQUIRE(element);
    CHECK(flat(*element) == Numbers{4, 5, 6, 7});
  }
}

TEST_CASE("joined shares of batches of unequal size resume where they were") {
  // One element of either is two numbers, of four items and of two.
  const Dataset shares = numbers(16)
                             .batch(2, BatchShare{.count = 2, .index = 1})
                             .concatenate(numbers(6, 100).batch(2));
  CHECK(all_numbers(shares) == Numbers{2, 3, 6, 7, 10, 11, 14, 15, 100, 101, 102, 103, 104, 105});
  for (int elements = 0; elements < 8; ++elements) check_resumes(shares, elements);
}

TEST_SUITE_END();
