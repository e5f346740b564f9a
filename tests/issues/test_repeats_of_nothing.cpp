// An empty pass was tried again as often as a repeat said, and a cache behind an endless repeat
// took memory until there was none; then the error told neither the cache nor what it held.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/random.h"
#include "keel/data/pipeline/iterator.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

constexpr int64_t kEndlessly = std::numeric_limits<int64_t>::max();

Dataset five_numbers() {
  return Dataset::from_tensors({{"x", Tensor::of<int64_t>({5}, {0, 1, 2, 3, 4})}});
}

int64_t number_of(const ItemView& item) { return item.data<int64_t>(0)[0]; }

std::vector<int64_t> all_of(const Dataset& dataset) {
  DatasetIterator items(dataset);
  std::vector<int64_t> all;
  while (const auto item = items.next()) all.push_back((*item)[0].item<int64_t>());
  return all;
}

// Items of this many bytes, of which none is ever made.
Dataset generated(int64_t bytes) {
  const auto make = [](int64_t, const ItemSlot&) { return true; };
  return Dataset::from_generator({{{"x", {u8, Shape{bytes}}}}}, make, 3);
}

}  // namespace

TEST_SUITE_BEGIN("data");

TEST_CASE("a pass without items ends a repeat however often it says") {
  int64_t asked = 0;
  const auto none = [&](const ItemView&) {
    ++asked;
    return false;
  };
  for (const Dataset& empty :
       {five_numbers().take(0), five_numbers().filter(none), five_numbers().shuffle(1).filter(none),
        five_numbers().filter(none).cache(),
        five_numbers().filter(none).concatenate(five_numbers().take(0)),
        five_numbers().filter(none).repeat(kEndlessly),
        five_numbers().take(0).repeat(kEndlessly)}) {
    asked = 0;
    CHECK(all_of(empty.repeat(kEndlessly)).empty());
    // Another stage behind it: the repeat does not end the chain.
    CHECK(all_of(empty.repeat(kEndlessly).skip(1)).empty());
    CHECK(all_of(empty.repeat(kEndlessly).shuffle_buffered(2, 1)).empty());
    CHECK(asked <= 3 * 5);
    CHECK(contains(error_of([&] { all_of(empty.repeat()); }), "no items to repeat without end"));
  }
  // An iterator that has ended names the place behind its last pass, as behind passes with items.
  const Dataset nothing = five_numbers().take(0).repeat(7);
  DatasetIterator ended(nothing);
  CHECK_FALSE(ended.next());
  CHECK(ended.cursor().epoch == 7);
  DatasetIterator resumed(nothing);
  resumed.restore(ended.cursor());
  CHECK_FALSE(resumed.next());
}

TEST_CASE("passes that may have other items are tried though one had none") {
  constexpr int64_t kPasses = 40;
  const auto is_two = [](const ItemView& item) { return number_of(item) == 2; };
  // Each pass has one of five items: the chance that it is the same in all 40 is 5^-39.
  const std::vector<int64_t> all = all_of(five_numbers().shuffle(3).take(1).repeat(kPasses));
  REQUIRE(all.size() == kPasses);
  std::vector<int64_t> twos;
  for (const int64_t x : all) {
    if (x == 2) twos.push_back(x);
  }
  REQUIRE(!twos.empty());
  REQUIRE(twos.size() < all.size());
  const Dataset once = five_numbers().shuffle(3).take(1).filter(is_two);
  CHECK(all_of(once.repeat(kPasses)) == twos);
  CHECK(all_of(once.repeat(kPasses).skip(1)).size() == twos.size() - 1);

  const auto drawn = [](const ItemView&, const ItemSlot& out, uint64_t key) {
    out.data<int64_t>(0)[0] = random_bits(key, 0) % 2;
  };
  const auto is_one = [](const ItemView& item) { return number_of(item) == 1; };
  const Dataset coin = five_numbers().take(1).map_random(five_numbers().spec(), drawn, 5);
  std::vector<int64_t> ones;
  for (const int64_t x : all_of(coin.repeat(kPasses))) {
    if (x == 1) ones.push_back(x);
  }
  REQUIRE(ones.size() < kPasses);
  CHECK(all_of(coin.filter(is_one).repeat(kPasses)) == ones);
}

TEST_CASE("a cache behind a repeat without end is refused with the users line") {
  const Dataset endless = five_numbers().repeat();
  const std::string refused = "cache: expected items that end, got those of a repeat without end";
  const std::string error = error_of([&] { endless.cache(); });
  CHECK(contains(error, refused));
  CHECK(contains(error, "test_repeats_of_nothing.cpp:" + std::to_string(__LINE__ - 2)));
  for (const Dataset& other :
       {endless.batch(2), endless.skip(3), endless.shard(2, 1), endless.concatenate(five_numbers()),
        endless.repeat(2), Dataset::interleave({five_numbers(), endless}), endless.prefetch(2),
        endless.shuffle_buffered(2, 1)}) {
    CHECK(contains(error_of([&] { other.cache(); }), refused));
  }
  // A part of it that ends is kept.
  CHECK(all_of(endless.take(7).cache()) == std::vector<int64_t>{0, 1, 2, 3, 4, 0, 1});
  const Dataset pairs =
      Dataset::zip({endless, five_numbers().map([](const std::vector<Tensor>& in) {
                      return std::vector<std::pair<std::string, Tensor>>{{"y", in[0]}};
                    })});
  CHECK(all_of(pairs.cache()).size() == 5);
  CHECK(all_of(five_numbers().repeat(2).cache()).size() == 10);
}

TEST_CASE("a cache that memory is too short for names itself and what it holds") {
  for (const int64_t bytes : {int64_t{1} << 50, int64_t{1} << 60}) {
    DatasetIterator items(generated(bytes).cache());
    void* const nowhere = nullptr;
    const std::string error = error_of([&] { items.next_into({&nowhere, 1}); });
    CHECK(contains(error, "cache: there is no memory for more than the 0 items of "));
  }
}

TEST_SUITE_END();

}  // namespace keel
