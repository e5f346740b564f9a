// An iterator lost the elements that a failed reader had begun, and named another place than it was
// at. What was asked to stop made its batch first, however long that took, and buffered shuffles
// and interleavings passed over all items of a cursor. Random maps behind a shard or the share of a
// batch drew the same numbers on each rank. Two fields of one name were taken.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"

#include "support/error_of.h"
#include "support/numbers.h"

namespace keel {
namespace {

using keel_test::contains, keel_test::error_of, keel_test::numbers;

const ElementSpec kNumber{{{"n", {i64, {}}}}};

std::vector<int64_t> values_of(const std::vector<Tensor>& element) {
  const auto data = element[0].data<int64_t>();
  return {data.begin(), data.end()};
}

using Numbers = std::vector<int64_t>;

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("an iterator makes the element again whose making failed") {
  auto failures = std::make_shared<int>(1);
  const Dataset batches = numbers(12)
                              .filter([failures](const ItemView& item) {
                                if (item.data<int64_t>(0)[0] == 6 && (*failures)-- > 0)
                                  throw std::runtime_error("once");
                                return true;
                              })
                              .batch(4);
  DatasetIterator items(batches);
  CHECK(values_of(*items.next()) == Numbers{0, 1, 2, 3});
  CHECK(contains(error_of([&] { items.next(); }), "once"));
  CHECK(items.cursor().position == 4);
  CHECK(values_of(*items.next()) == Numbers{4, 5, 6, 7});
  CHECK(values_of(*items.next()) == Numbers{8, 9, 10, 11});
  CHECK_FALSE(items.next());
}

TEST_CASE("an iterator beyond the end of a pass does not begin the next one") {
  const Dataset items = numbers(8).filter([](const ItemView&) { return true; }).repeat(3);
  DatasetIterator beyond(items);
  beyond.restore({.epoch = 0, .position = 100, .key = beyond.cursor().key});
  for (int tries = 0; tries < 2; ++tries)
    CHECK(contains(error_of([&] { beyond.next(); }), "100 elements in a pass that is shorter"));
}

TEST_CASE("a pass that is stopped ends within an item of each thread") {
  std::atomic<bool> stop{false};
  std::atomic<int> made{0};
  // The third item raises the flag, as another thread does that ends a training.
  const auto count = [&] {
    if (++made == 3) stop = true;
  };
  const auto one_more = [&](const ItemView& in, const ItemSlot& out) {
    out.data<int64_t>(0)[0] = in.data<int64_t>(0)[0] + 1;
    count();
  };
  const auto generated = Dataset::from_generator(
      kNumber,
      [&](int64_t index, const ItemSlot& out) {
        out.data<int64_t>(0)[0] = index;
        count();
        return true;
      },
      1000);
  const Dataset mapped = numbers(1000).map(kNumber, one_more);
  const Dataset kept = numbers(1000).filter([](const ItemView&) { return true; });
  const std::vector<Dataset> all = {mapped.batch(500), kept.map(kNumber, one_more).batch(500),
                                    mapped.cache().batch(10), generated.batch(500)};
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    stop = false;
    made = 0;
    DatasetIterator items(all[i], &stop);
    CHECK_FALSE(items.next());
    CHECK(made == 3);
    CHECK(items.cursor().position == 0);
    // What was kept of the pass that was stopped is not the whole.
    stop = false;
    made = 100;
    DatasetIterator again(all[i], &stop);
    CHECK(values_of(*again.next())[9] == (i == 3 ? 9 : 10));
  }
}

TEST_CASE("a prefetch that passes items over looks whether it is to stop") {
  std::atomic<bool> stop{false};
  std::atomic<int> made{0};
  const Dataset generated =
      Dataset::from_generator(kNumber, [&](int64_t index, const ItemSlot& out) {
        out.data<int64_t>(0)[0] = index;
        if (++made == 3) stop = true;
        return index < 5000;
      });
  DatasetIterator items(generated.batch(10).prefetch(2), &stop);
  items.restore({.epoch = 0, .position = 4000, .key = items.cursor().key});
  CHECK_FALSE(items.next());
  CHECK(made < 400);
}

TEST_CASE("shuffles from a buffer and interleavings look whether they are to stop") {
  // Items without bytes, so many that a pass which does not look is busy for months.
  constexpr int64_t kMany = 400'000'000'000'000, kBatch = 25'000;
  const Dataset rows = Dataset::from_tensors({{"nothing", Tensor(u8, {kMany, 0})}});
  const Dataset shuffled = rows.shuffle_buffered(1000, 1);
  const Dataset interleaved = Dataset::interleave({rows.take(kMany / 2), rows.take(kMany / 2)});
  for (const bool skips : {true, false}) {
    for (const Dataset* items : {&shuffled, &interleaved}) {
      CAPTURE(skips);
      CAPTURE(items == &shuffled);
      std::atomic<bool> stop{false};
      DatasetIterator iterator(items->batch(skips ? kBatch : kMany), &stop);
      if (skips) {
        iterator.restore({.epoch = 0, .position = kMany - kBatch, .key = iterator.cursor().key});
      }
      std::thread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        stop = true;
      });
      const auto element = iterator.next();
      stopper.join();
      CHECK_FALSE(element);
      CHECK(iterator.cursor().position == (skips ? kMany - kBatch : 0));
    }
  }
}

TEST_CASE("ranks draw other numbers for their shares and shards") {
  const auto keys_of = [](const Dataset& source) {
    const auto own_key = [](const ItemView&, const ItemSlot& out, uint64_t key) {
      out.data<int64_t>(0)[0] = static_cast<int64_t>(key);
    };
    DatasetIterator items(source.map_random(kNumber, own_key, 5));
    Numbers keys;
    while (const auto item = items.next()) keys.push_back(values_of(*item)[0]);
    return keys;
  };
  const Dataset all = numbers(24);
  const Numbers whole = keys_of(all);
  for (int64_t rank = 0; rank < 3; ++rank) {
    const Numbers shard = keys_of(all.shard(3, rank));
    REQUIRE(shard.size() == 8);
    const Numbers share = keys_of(all.batch(2, {.count = 3, .index = rank}));
    REQUIRE(share.size() == 4);
    for (size_t i = 0; i < 8; ++i) {
      const int64_t expected = whole[3 * i + static_cast<size_t>(rank)];
      CHECK(shard[i] == expected);
      if (i < 4) CHECK(share[i] == expected);
    }
  }
  const Dataset zipped = Dataset::zip({all.shard(3, 1)});
  CHECK(keys_of(zipped)[2] == whole[7]);
  // What is taken or skipped is no shard, and is numbered from 0.
  CHECK(keys_of(all.skip(5).take(3)) == Numbers(whole.begin(), whole.begin() + 3));
}

TEST_CASE("fields of one name are no element") {
  const std::string refused = error_of([&] {
    Dataset::from_tensors({{"x", Tensor(f32, {2})}, {"x", Tensor(f32, {2})}});
  });
  CHECK(contains(refused, "two fields 'x'"));
}

TEST_SUITE_END();

}  // namespace keel
