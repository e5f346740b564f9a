// Cursors of buffered shuffles and interleavings were taken by those of another buffer or block,
// which lost items and doubled others; behind padded passes of unknown size they did not survive
// another batch size; and places behind the last epoch were taken.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/device_cache.h"
#include "keel/data/pipeline/iterator.h"

#include "support/error_of.h"
#include "support/numbers.h"
#include "support/read_dataset.h"

TEST_SUITE_BEGIN("data");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::cursor_behind;
using keel_test::error_of;
using keel_test::numbers;
using Numbers = std::vector<int64_t>;

Numbers rest_behind(const Dataset& dataset, const Cursor& cursor) {
  DatasetIterator iterator(dataset);
  iterator.restore(cursor);
  Numbers rest;
  while (const auto element = iterator.next()) {
    for (const int64_t n : (*element)[0].data<int64_t>()) rest.push_back(n);
  }
  return rest;
}

std::string cursor_refusal(const Dataset& dataset, const Cursor& cursor) {
  return error_of([&] { DatasetIterator(dataset).restore(cursor); });
}

// Nobody knows how many items there are behind a filter.
Dataset of_unknown_size(int64_t count) {
  return numbers(count).filter([](const ItemView&) { return true; });
}

}  // namespace

TEST_CASE("a buffered shuffle refuses cursors of other buffers and of whole shuffles") {
  const Dataset items = numbers(20);
  const Dataset shuffled = items.shuffle_buffered(10, 7);
  const Cursor cursor = cursor_behind(shuffled, 10);
  CHECK(contains(cursor_refusal(items.shuffle_buffered(3, 7), cursor), "as this dataset shuffles"));
  CHECK(contains(cursor_refusal(items.shuffle(7), cursor), "as this dataset shuffles"));
  CHECK(contains(cursor_refusal(shuffled, cursor_behind(items.shuffle(7), 10)), "shuffles"));
  CHECK(contains(cursor_refusal(items, cursor), "shuffles"));
  CHECK(contains(cursor_refusal(items.shuffle(1).shuffle_buffered(3, 7),
                                cursor_behind(items.shuffle(1).shuffle_buffered(10, 7), 10)),
                 "shuffles"));
  CHECK(rest_behind(shuffled, cursor).size() == 10);
  CHECK(rest_behind(items.shuffle_buffered(10, 7).batch(5), cursor).size() == 10);
}

TEST_CASE("an interleaving refuses cursors of other blocks") {
  const auto interleaved = [](int64_t block) {
    return Dataset::interleave({numbers(6), numbers(6)}, block);
  };
  const Cursor cursor = cursor_behind(interleaved(1), 4);
  CHECK(contains(cursor_refusal(interleaved(3), cursor), "interleaves"));
  CHECK(rest_behind(interleaved(1), cursor) == Numbers{2, 2, 3, 3, 4, 4, 5, 5});
  CHECK(rest_behind(interleaved(3), cursor_behind(interleaved(3), 4)) ==
        Numbers{1, 2, 3, 4, 5, 3, 4, 5});
  // The very first place is that of all of them.
  CHECK(rest_behind(interleaved(3), Cursor{}).size() == 12);
}

TEST_CASE("a cursor at the end of a padded pass of unknown size takes another batch size") {
  for (const Dataset& items : {of_unknown_size(10), of_unknown_size(10).cache()}) {
    const auto padded = [&](int64_t batch) { return items.batch(batch, Tail::kPad).repeat(2); };
    const Cursor end = cursor_behind(padded(4), 3);
    CHECK(end == Cursor{.epoch = 0, .position = 12, .key = 0});
    const Numbers second_pass{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    CHECK(rest_behind(padded(2), end) == second_pass);
    CHECK(rest_behind(padded(2).prefetch(2), end) == second_pass);
    CHECK(rest_behind(padded(1), end) == second_pass);
    CHECK(rest_behind(padded(4), end) == Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0});
    CHECK(rest_behind(items.batch(2, Tail::kPad), end).empty());
    // Where nothing is filled up, there is no such place.
    DatasetIterator dropping(items.batch(2));
    dropping.restore(end);
    CHECK(contains(error_of([&] { dropping.next(); }), "6 elements in a pass that is shorter"));
  }
}

TEST_CASE("a cursor at the end of a padded pass is taken where the number of items is known") {
  const Device host = device("cpu");
  const auto whole_pass_behind = [](const Dataset& dataset, const Cursor& end) {
    DatasetIterator iterator(dataset);
    iterator.restore(end);
    CHECK(iterator.cursor() == Cursor{.epoch = 1, .position = 0, .key = 0});
    int64_t elements = 0;
    while (iterator.next()) ++elements;
    return elements;
  };
  const auto rows = [](const Dataset& dataset) { return find_device_cache(dataset.stage())->rows; };
  const auto batched = [&](int64_t batch) {
    return of_unknown_size(10).cache(host).batch(batch, Tail::kPad).repeat(2);
  };
  const auto batched_before = [&](int64_t batch) {
    return of_unknown_size(10).batch(batch, Tail::kPad).cache(host).repeat(2);
  };
  for (const Cursor& end : {cursor_behind(batched(4), 3), cursor_behind(batched_before(4), 3)}) {
    CHECK(end == Cursor{.epoch = 0, .position = 12, .key = 0});
    CHECK(whole_pass_behind(rows(batched(4)), end) == 3);
    CHECK(whole_pass_behind(rows(batched(2)), end) == 5);
    CHECK(whole_pass_behind(rows(batched(1)), end) == 10);
    CHECK(whole_pass_behind(rows(batched_before(2)), end) == 5);
    CHECK(whole_pass_behind(numbers(10).batch(2, Tail::kPad).repeat(2), end) == 5);
    CHECK(contains(cursor_refusal(numbers(10).batch(2).repeat(2), end),
                   "position: expected at most 10"));
    CHECK(contains(cursor_refusal(rows(of_unknown_size(10).cache(host).batch(2).repeat(2)), end),
                   "position: expected at most 10"));
  }
}

TEST_CASE("zipped padded batches of unknown size take another batch size at their end as well") {
  const auto zipped = [](int64_t batch) {
    const Dataset m = Dataset::from_tensors({{"m", Tensor(i64, {10})}});
    return Dataset::zip({of_unknown_size(10).batch(batch, Tail::kPad),
                         m.batch(batch, Tail::kPad).select({"m"})})
        .repeat(2);
  };
  CHECK(rest_behind(zipped(2), cursor_behind(zipped(4), 3)) ==
        Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("a place within the epoch behind the last one is refused") {
  for (const Dataset& items : {numbers(6), of_unknown_size(6)}) {
    const Dataset twice = items.repeat(2);
    CHECK(contains(cursor_refusal(twice, {.epoch = 2, .position = 3, .key = 0}),
                   "position: expected 0 behind the last of 2 epochs, got 3"));
    CHECK(contains(cursor_refusal(twice, {.epoch = 2, .position = 6, .key = 0}), "got 6"));
    CHECK(rest_behind(twice, {.epoch = 2, .position = 0, .key = 0}).empty());
    CHECK(rest_behind(twice, {.epoch = 1, .position = 3, .key = 0}) == Numbers{3, 4, 5});
  }
}

TEST_SUITE_END();
