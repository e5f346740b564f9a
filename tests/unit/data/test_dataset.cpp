#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include <doctest/doctest.h>

#include "keel/core/base/random.h"
#include "keel/core/tensor/npy.h"
#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"

#include "number_element_for_tests.h"
#include "support/error_of.h"
#include "support/numbers.h"

TEST_SUITE_BEGIN("pipeline");

namespace {

using keel::Cursor;
using keel::Dataset;
using keel::DatasetIterator;
using keel::ElementSpec;
using keel::Error;
using keel::ItemSlot;
using keel::ItemView;
using keel::Tail;
using keel::Tensor;
using keel::testing::kNumber;
using keel_test::numbers;
using Numbers = std::vector<int64_t>;

// Items first, first + 1, ...: reachable in any order.
// The same in order only, with a size that is not known.
Dataset stream(int64_t count, int64_t first = 0) {
  return Dataset::from_generator(kNumber, [=](int64_t index, const ItemSlot& out) {
    if (index >= count) return false;
    out.data<int64_t>(0)[0] = first + index;
    return true;
  });
}

Numbers flat(const std::vector<Tensor>& element) {
  const auto values = element[0].data<int64_t>();
  return {values.begin(), values.end()};
}

Numbers all(const Dataset& dataset, size_t most = 100000) {
  DatasetIterator iterator(dataset);
  Numbers out;
  while (out.size() < most) {
    const auto element = iterator.next();
    if (!element) break;
    for (const int64_t n : flat(*element)) out.push_back(n);
  }
  return out;
}

Numbers range(int64_t begin, int64_t end, int64_t step = 1) {
  Numbers out;
  for (int64_t i = begin; i < end; i += step) out.push_back(i);
  return out;
}

Numbers joined(std::initializer_list<Numbers> parts) {
  Numbers out;
  for (const Numbers& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

Dataset doubled(const Dataset& from, int threads = 1) {
  return from.map(kNumber,
                  [](const ItemView& in, const ItemSlot& out) {
                    out.data<int64_t>(0)[0] = in.data<int64_t>(0)[0] * 2;
                  },
                  {.name = "doubled", .threads = threads});
}

Dataset odd(const Dataset& from) {
  return from.filter([](const ItemView& item) { return item.data<int64_t>(0)[0] % 2 == 1; }, "odd");
}

// Walks the dataset once, then again from every cursor, and expects the same rest. Ends after
// `most` elements.
void check_restores(const Dataset& dataset, size_t most = 60) {
  DatasetIterator iterator(dataset);
  std::vector<Numbers> elements;
  std::vector<Cursor> cursors{iterator.cursor()};
  while (elements.size() < most) {
    const auto element = iterator.next();
    if (!element) break;
    elements.push_back(flat(*element));
    cursors.push_back(iterator.cursor());
  }
  for (size_t cut = 0; cut <= elements.size(); ++cut) {
    DatasetIterator resumed(dataset);
    resumed.restore(cursors[cut]);
    CHECK(resumed.cursor() == cursors[cut]);
    for (size_t i = cut; i < elements.size(); ++i) {
      const auto element = resumed.next();
      REQUIRE(element);
      REQUIRE(flat(*element) == elements[i]);
      REQUIRE(resumed.cursor() == cursors[i + 1]);
    }
    if (elements.size() < most) CHECK_FALSE(resumed.next());
  }
}

}  // namespace

TEST_CASE("dataset: rows of tensors are items") {
  const Tensor x = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor y = Tensor::of<uint8_t>({3}, {7, 8, 9});
  const Dataset dataset = Dataset::from_tensors({{"x", x}, {"y", y}});
  CHECK(to_string(dataset.spec()) == "(x: f32[2], y: u8[])");
  CHECK(dataset.size() == 3);
  DatasetIterator iterator(dataset);
  iterator.next();
  const auto item = iterator.next();
  REQUIRE(item);
  CHECK(keel::bit_equal((*item)[0], Tensor::of<float>({2}, {3, 4})));
  CHECK((*item)[1].item<uint8_t>() == 8);
  CHECK(iterator.next());
  CHECK_FALSE(iterator.next());
  CHECK_FALSE(iterator.next());
}

TEST_CASE("dataset: a shuffle of the whole pass is the permutation of its epoch") {
  for (const uint64_t seed : {0u, 9u}) {
    const Numbers got = all(numbers(1000).shuffle(seed).repeat(2));
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      const auto order = keel::shuffled_indices(1000, keel::fold_key(seed, epoch));
      CHECK(std::equal(order.begin(), order.end(),
                       got.begin() + static_cast<std::ptrdiff_t>(epoch * 1000)));
    }
  }
}

TEST_CASE("dataset: take and skip and shard") {
  for (const Dataset& source : {numbers(10), stream(10)}) {
    CHECK(all(source.take(3)) == range(0, 3));
    CHECK(all(source.take(0)).empty());
    CHECK(all(source.take(30)) == range(0, 10));
    CHECK(all(source.skip(7)) == range(7, 10));
    CHECK(all(source.skip(70)).empty());
    CHECK(all(source.skip(2).take(3).skip(1)) == range(3, 5));
    CHECK(all(source.shard(3, 0)) == Numbers{0, 3, 6, 9});
    CHECK(all(source.shard(3, 2)) == Numbers{2, 5, 8});
    CHECK(all(source.shard(20, 15)).empty());
  }
  CHECK(numbers(10).shard(3, 1).size() == 3);
  CHECK(numbers(10).skip(4).take(9).size() == 6);
  CHECK_FALSE(stream(10).take(3).size());
  // Each of two shards of a shuffled set sees its half.
  const Dataset shuffled = numbers(100).shuffle(4);
  Numbers both = joined({all(shuffled.shard(2, 0)), all(shuffled.shard(2, 1))});
  std::sort(both.begin(), both.end());
  CHECK(both == range(0, 100));
}

TEST_CASE("dataset: repeat and concatenate and interleave") {
  for (const bool indexed : {true, false}) {
    const Dataset three = indexed ? numbers(3) : stream(3);
    const Dataset five = indexed ? numbers(5, 10) : stream(5, 10);
    CHECK(all(three.repeat(3)) == joined({range(0, 3), range(0, 3), range(0, 3)}));
    CHECK(all(three.repeat(0)).empty());
    CHECK(all(three.repeat(), 7) == Numbers{0, 1, 2, 0, 1, 2, 0});
    CHECK(all(three.repeat(2).take(4)) == Numbers{0, 1, 2, 0});
    CHECK(all(three.concatenate(five)) == joined({range(0, 3), range(10, 15)}));
    CHECK(all(three.concatenate(five).batch(4)) == joined({range(0, 3), range(10, 15)}));
    CHECK(all(Dataset::interleave({three, five})) == Numbers{0, 10, 1, 11, 2, 12, 13, 14});
    CHECK(all(Dataset::interleave({three, five}, 2)) == Numbers{0, 1, 10, 11, 2, 12, 13, 14});
    CHECK(all(Dataset::interleave({three, five}, 2).batch(4)) ==
          Numbers{0, 1, 10, 11, 2, 12, 13, 14});
  }
  Numbers mixed = all(numbers(3).concatenate(numbers(5, 10)).shuffle(2));
  CHECK(mixed != joined({range(0, 3), range(10, 15)}));
  std::sort(mixed.begin(), mixed.end());
  CHECK(mixed == joined({range(0, 3), range(10, 15)}));
  CHECK_THROWS_AS(all(odd(numbers(1)).repeat()), Error);
  CHECK_THROWS_AS(all(odd(numbers(1)).repeat().batch(2)), Error);
  CHECK(numbers(0).repeat().size() == 0);
}

TEST_CASE("dataset: zip ends with the shortest part and select chooses fields") {
  const Dataset a = numbers(4);
  const Dataset b = Dataset::from_tensors({{"m", Tensor::of<float>({3}, {0.5f, 1.5f, 2.5f})}});
  for (const Dataset& left : {a, stream(4)}) {
    const Dataset both = Dataset::zip({left, b});
    CHECK(to_string(both.spec()) == "(n: i64[], m: f32[])");
    CHECK(all(both) == range(0, 3));
    DatasetIterator iterator(both.select({"m"}));
    iterator.next();
    const auto item = iterator.next();
    REQUIRE(item);
    CHECK(item->size() == 1);
    CHECK((*item)[0].item<float>() == 1.5f);
    CHECK(all(both.select({"n", "m"}).batch(2)) == range(0, 2));
    CHECK(all(doubled(both.select({"n"}))) == Numbers{0, 2, 4});
  }
  CHECK_THROWS_WITH_AS(Dataset::zip({a, a}), doctest::Contains("a field 'n'"), Error);
  CHECK_THROWS_WITH_AS(a.select({"k"}), doctest::Contains("field 'k'"), Error);
  CHECK_THROWS_AS(a.select({"n", "n"}), Error);
}

TEST_CASE("dataset: batch drops or pads") {
  for (const Dataset& source :
       {numbers(10), stream(10),
        odd(numbers(20)).map(kNumber, [](const ItemView&in, const ItemSlot&out) {
          out.data<int64_t>(0)[0] = in.data<int64_t>(0)[0] / 2;
        })}) {
    CHECK(all(source.batch(4)) == range(0, 8));
    CHECK(all(source.batch(5)) == range(0, 10));
    CHECK(all(source.batch(2).batch(2)) == range(0, 8));
    const Dataset padded = source.batch(4, Tail::kPad);
    CHECK(to_string(padded.spec()) == "(n: i64[4], mask: bool[4])");
    CHECK(all(padded) == joined({range(0, 10), {0, 0}}));
    DatasetIterator iterator(padded);
    std::vector<bool> mask;
    while (const auto batch = iterator.next()) {
      for (const bool real : (*batch)[1].data<bool>()) mask.push_back(real);
    }
    std::vector<bool> expected(12, true);
    expected[10] = expected[11] = false;
    CHECK(mask == expected);
    CHECK(all(source.batch(5, Tail::kPad)) == range(0, 10));
    CHECK_THROWS_AS(padded.batch(2, Tail::kPad), Error);
  }
  CHECK(numbers(10).batch(4).size() == 2);
  CHECK(numbers(10).batch(4).dropped_items() == 2);
  CHECK(numbers(10).batch(4, Tail::kPad).size() == 3);
  CHECK(numbers(10).batch(4, Tail::kPad).dropped_items() == 0);
  CHECK(numbers(700).batch(600).size() == 1);
  CHECK(all(numbers(700).batch(600)) == range(0, 600));
  CHECK_THROWS_AS(numbers(10).batch(0), Error);
  CHECK_THROWS_WITH_AS(numbers(10).batch(11), doctest::Contains("at most 10"), Error);
  CHECK_THROWS_AS(numbers(10).batch(int64_t{1} << 62), Error);
}

TEST_CASE("dataset: shares of a batch are its parts") {
  for (const Dataset& source : {numbers(23), stream(23)}) {
    // Whole batches of 3 * 2 items: 0 to 5, 6 to 11, 12 to 17, and five are left over.
    CHECK(all(source.batch(2, {3, 0})) == Numbers{0, 1, 6, 7, 12, 13});
    CHECK(all(source.batch(2, {3, 1})) == Numbers{2, 3, 8, 9, 14, 15});
    CHECK(all(source.batch(2, {3, 2})) == Numbers{4, 5, 10, 11, 16, 17});
    CHECK(all(source.batch(2, {1, 0})) == range(0, 22));
    // Padded they all have as many.
    CHECK(all(source.batch(2, {3, 0}, Tail::kPad)) == Numbers{0, 1, 6, 7, 12, 13, 18, 19});
    CHECK(all(source.batch(2, {3, 2}, Tail::kPad)) == Numbers{4, 5, 10, 11, 16, 17, 22, 0});
    const Dataset none_left = source.take(20).batch(2, {3, 2}, Tail::kPad);
    CHECK(all(none_left) == Numbers{4, 5, 10, 11, 16, 17, 0, 0});
    DatasetIterator iterator(none_left);
    std::vector<bool> mask;
    while (const auto batch = iterator.next()) {
      for (const bool real : (*batch)[1].data<bool>()) mask.push_back(real);
    }
    CHECK(mask == std::vector<bool>{true, true, true, true, true, true, false, false});
  }
  CHECK(numbers(23).batch(2, {3, 1}).size() == 3);
  CHECK(numbers(23).batch(2, {3, 1}).dropped_items() == 5);
  CHECK(numbers(24).batch(2, {3, 1}).dropped_items() == 0);
  CHECK_THROWS_AS(numbers(5).batch(2, {3, 0}), Error);
  CHECK_THROWS_AS(numbers(50).batch(2, {3, 3}), Error);
  CHECK_THROWS_AS(numbers(50).batch(2, {3, -1}), Error);
  CHECK_THROWS_AS(numbers(50).batch(2, {0, 0}), Error);
}

TEST_CASE("dataset: the cursor behind a share is that behind its whole batch") {
  // So a training goes on with another number of ranks where it was left.
  const Dataset order = numbers(30).shuffle(7);
  DatasetIterator alone(order.batch(6).repeat());
  for (int i = 0; i < 7; ++i) alone.next();
  for (const int64_t shares : {1, 2, 3}) {
    for (int64_t share = 0; share < shares; ++share) {
      CAPTURE(shares);
      CAPTURE(share);
      DatasetIterator part(order.batch(6 / shares, {shares, share}).repeat());
      for (int i = 0; i < 7; ++i) part.next();
      CHECK(part.cursor() == alone.cursor());
      DatasetIterator resumed(order.batch(6 / shares, {shares, share}).repeat());
      resumed.restore(alone.cursor());
      CHECK(flat(*resumed.next()) == flat(*part.next()));
    }
  }
}

TEST_CASE("dataset: map and filter whatever the number of threads") {
  Numbers expected = range(0, 1000, 2);
  for (const Dataset& source : {numbers(500), stream(500)}) {
    for (const int threads : {1, 2, 5}) {
      CHECK(all(doubled(source, threads)) == expected);
      CHECK(all(doubled(source, threads).batch(100)) == expected);
      CHECK(all(doubled(source.batch(1), 1).batch(50).take(1)).size() == 50);
    }
    CHECK(all(odd(source)) == range(1, 500, 2));
    CHECK(all(odd(source).batch(50)) == range(1, 500, 2));
    CHECK(all(doubled(odd(source), 3).batch(10)) == range(2, 1000, 4));
  }
  CHECK(all(doubled(doubled(numbers(300), 2), 3).batch(150)) == range(0, 1200, 4));
  CHECK(all(doubled(numbers(500), 3).shuffle(1).batch(100)) ==
        all(doubled(numbers(500).shuffle(1))));
}

TEST_CASE("dataset: map on tensors finds its types from the first item") {
  const Dataset halves = numbers(5).map([](const std::vector<Tensor>& in) {
    return std::vector<std::pair<std::string, Tensor>>{{"half", in[0].cast(keel::f32)},
                                                       {"same", in[0]}};
  });
  CHECK(to_string(halves.spec()) == "(half: f32[], same: i64[])");
  DatasetIterator iterator(halves.skip(3));
  const auto item = iterator.next();
  REQUIRE(item);
  CHECK((*item)[0].item<float>() == 3.0f);
  CHECK((*item)[1].item<int64_t>() == 3);
  const Dataset uneven = numbers(5).map([](const std::vector<Tensor>& in) {
    return std::vector<std::pair<std::string, Tensor>>{
        {"r", Tensor(keel::i64, {in[0].item<int64_t>() / 3})}};
  });
  CHECK_THROWS_WITH_AS(all(uneven), doctest::Contains("as for the first item"), Error);
  CHECK_THROWS_WITH_AS(numbers(0).map([](const std::vector<Tensor>&) {
    return std::vector<std::pair<std::string, Tensor>>{};
  }),
                       doctest::Contains("there is no item"), Error);
  // What is no exception is an Error from the first item on, too.
  const auto throws = [](const std::vector<Tensor>& in) {
    if (in[0].item<int64_t>() == 0) throw 7;
    return std::vector<std::pair<std::string, Tensor>>{{"n", in[0]}};
  };
  const Dataset five = numbers(5);
  const std::string line = "test_dataset.cpp:" + std::to_string(__LINE__ + 1);
  const std::string error = keel_test::error_of([&] { five.map(throws, {.name = "mine"}); });
  CHECK(keel_test::contains(error, "map 'mine': item 0: threw something that is no exception ("));
  CHECK(keel_test::contains(error, line));
}

TEST_CASE("dataset: what a user function throws names stage and item and line") {
  const auto guard = [](const ItemView& in, const ItemSlot&) {
    if (in.data<int64_t>(0)[0] >= 70) throw std::runtime_error("too big");
  };
  for (const int threads : {1, 3}) {
    for (const Dataset& source : {numbers(200), stream(200)}) {
      const Dataset mapped = source.map(kNumber, guard, {.name = "guard", .threads = threads});
      const int line = __LINE__ - 1;
      const Dataset bad = mapped.batch(100);
      try {
        all(bad);
        FAIL("nothing was thrown");
      } catch (const Error& error) {
        // Of all that fail the first is reported, whichever thread it was.
        CHECK(error.info().op == "map 'guard'");
        CHECK(error.info().argument == "item 70");
        CHECK(error.info().message == "too big");
        CHECK(error.info().site.line == line);
        CHECK(std::string(error.info().site.file).find("test_dataset.cpp") != std::string::npos);
      }
    }
  }
  const Dataset filtered =
      numbers(5).filter([](const ItemView& item) { return item.data<float>(0)[0] > 0; });
  CHECK_THROWS_WITH_AS(
      all(filtered),
      doctest::Contains("filter 'filter': item 0: item: field 'n': expected i64, got f32"), Error);
  const Dataset generated =
      Dataset::from_generator(kNumber, [](int64_t index, const ItemSlot&) -> bool {
        if (index == 3) throw 42;
        return true;
      });
  CHECK_THROWS_WITH_AS(all(generated), doctest::Contains("generator: item 3"), Error);
  const Dataset short_one = Dataset::from_generator(
      kNumber, [](int64_t index, const ItemSlot&) { return index < 3; }, 5);
  CHECK_THROWS_WITH_AS(all(short_one), doctest::Contains("there is none, but size is 5"), Error);
}

TEST_CASE("dataset: a buffered shuffle keeps every item and mixes within its buffer") {
  const Dataset shuffled = stream(500).shuffle_buffered(20, 3);
  const Numbers once = all(shuffled);
  CHECK(once == all(shuffled));
  CHECK(once == all(shuffled.batch(50)));
  CHECK(once != all(stream(500).shuffle_buffered(20, 4)));
  for (size_t i = 0; i < once.size(); ++i) CHECK(once[i] < static_cast<int64_t>(i) + 20);
  Numbers sorted = once;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == range(0, 500));
  const Numbers twice = all(shuffled.repeat(2));
  CHECK(Numbers(twice.begin(), twice.begin() + 500) == once);
  CHECK(Numbers(twice.begin() + 500, twice.end()) != once);
  CHECK(all(stream(5).shuffle_buffered(1, 3)) == range(0, 5));
  CHECK(all(stream(3).shuffle_buffered(100, 3)).size() == 3);
  CHECK_THROWS_WITH_AS(stream(5).shuffle(1), doctest::Contains("shuffle_buffered"), Error);
  CHECK_THROWS_AS(stream(5).shuffle_buffered(0, 1), Error);
}

TEST_CASE("dataset: cache runs the stages before it once and can be shuffled") {
  std::atomic<int> calls{0};
  const Dataset counted = stream(3000).map(kNumber, [&](const ItemView& in, const ItemSlot& out) {
    ++calls;
    out.data<int64_t>(0)[0] = in.data<int64_t>(0)[0];
  });
  const Dataset cached = counted.cache();
  CHECK(all(cached) == range(0, 3000));
  CHECK(all(cached.batch(7).take(3)) == range(0, 21));
  Numbers shuffled = all(cached.shuffle(5));
  CHECK(shuffled != range(0, 3000));
  std::sort(shuffled.begin(), shuffled.end());
  CHECK(shuffled == range(0, 3000));
  CHECK(calls == 3000);
}

TEST_CASE("dataset: prefetch changes nothing and its thread ends at any moment") {
  for (const int64_t ahead : {1, 2, 7, 100}) {
    CHECK(all(stream(50).prefetch(ahead)) == range(0, 50));
    CHECK(all(doubled(stream(50), 2).prefetch(ahead).batch(10)) == range(0, 100, 2));
    DatasetIterator abandoned(stream(1000).prefetch(ahead).repeat());
    abandoned.next();
  }
  const Dataset failing =
      doubled(stream(50).map(kNumber, [](const ItemView& in, const ItemSlot& out) {
        if (in.data<int64_t>(0)[0] == 20) throw std::runtime_error("twenty");
        out.data<int64_t>(0)[0] = in.data<int64_t>(0)[0];
      })).prefetch(1);
  DatasetIterator iterator(failing);
  for (int64_t i = 0; i < 20; ++i) {
    const auto item = iterator.next();
    REQUIRE(item);
    CHECK(flat(*item)[0] == 2 * i);
  }
  CHECK_THROWS_WITH_AS(iterator.next(), doctest::Contains("twenty"), Error);
}

TEST_CASE("dataset: every kind of pipeline can be restored at every cursor") {
  check_restores(numbers(13).shuffle(1).batch(3).repeat(3));
  check_restores(numbers(13).shuffle(1).repeat(3).batch(4));
  check_restores(numbers(5).batch(2, Tail::kPad).repeat(2));
  check_restores(numbers(20).shuffle(8).take(7).repeat());
  check_restores(stream(11).batch(2).repeat(2));
  check_restores(stream(11).shuffle_buffered(4, 2).batch(2).repeat(3));
  check_restores(odd(numbers(30).shuffle(1)).batch(3).repeat(2));
  check_restores(odd(stream(9)).repeat().batch(3), 12);
  check_restores(doubled(odd(stream(19)), 2).batch(2).prefetch(3));
  check_restores(Dataset::interleave({stream(7), odd(numbers(9))}, 2).batch(2).repeat(2));
  check_restores(numbers(4).concatenate(stream(5)).shuffle_buffered(3, 1).repeat(2));
  check_restores(stream(9).cache().shuffle(3).batch(2).repeat(2));
  check_restores(Dataset::zip({numbers(9).shuffle(3)}).shard(2, 1).repeat(3));
  check_restores(numbers(6).shuffle(2).repeat(2).prefetch(2).select({"n"}));
  for (const Dataset& from : {numbers(7).shuffle(2), odd(stream(15))}) {
    check_restores(from.map_random(
                           kNumber,
                           [](const ItemView& in, const ItemSlot& out, uint64_t key) {
                             out.data<int64_t>(0)[0] =
                                 in.data<int64_t>(0)[0] ^ static_cast<int64_t>(key);
                           },
                           4)
                       .batch(2)
                       .repeat(3));
  }
}

TEST_CASE("dataset: cursors count epochs and items") {
  DatasetIterator iterator(numbers(10).shuffle(5).batch(4).repeat(2));
  const uint64_t first = keel::fold_key(5, 0);
  const uint64_t second = keel::fold_key(5, 1);
  CHECK(iterator.cursor() == Cursor{0, 0, first});
  iterator.next();
  CHECK(iterator.cursor() == Cursor{0, 4, first});
  iterator.next();
  CHECK(iterator.cursor() == Cursor{1, 0, second});
  // A cursor survives another batch size.
  DatasetIterator smaller(numbers(10).shuffle(5).batch(2).repeat(2));
  smaller.restore({0, 4, first});
  const auto batch = smaller.next();
  REQUIRE(batch);
  const auto order = keel::shuffled_indices(10, first);
  CHECK(flat(*batch) == Numbers{order[4], order[5]});
  CHECK_THROWS_WITH_AS(smaller.restore({0, 4, second}),
                       doctest::Contains("as this dataset shuffles"), Error);
  CHECK_THROWS_AS(smaller.restore({0, 3, first}), Error);
  CHECK_THROWS_AS(smaller.restore({0, 12, first}), Error);
  DatasetIterator unknown(stream(5));
  unknown.restore({0, 9, 0});
  CHECK_THROWS_WITH_AS(unknown.next(), doctest::Contains("a pass that is shorter"), Error);
}

TEST_CASE("dataset: a stop flag ends even a filter that keeps nothing of an endless source") {
  std::atomic<bool> stop{false};
  DatasetIterator iterator(
      numbers(10).repeat().filter([](const ItemView&) { return false; }).batch(3), &stop);
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  });
  CHECK_FALSE(iterator.next());
  stopper.join();
}

TEST_CASE("dataset: npy files and wrong arguments") {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("keel_npy_" + std::to_string(std::random_device()()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "a.npy").string();
  keel::write_npy(path, Tensor::of<int64_t>({3}, {4, 5, 6}));
  CHECK(all(Dataset::from_npy({{"n", path}})) == range(4, 7));
  CHECK_THROWS_AS(Dataset::from_npy({{"n", path + "x"}}), Error);
  // Magic: u8, rank 1; three elements.
  const std::string idx = (folder / "a.idx").string();
  std::ofstream(idx, std::ios::binary) << std::string("\0\0\x08\x01\0\0\0\x03\x07\x08\x09", 11);
  keel::DatasetIterator bytes(Dataset::from_idx({{"b", idx, 1}}).batch(3));
  const auto batch = bytes.next();
  REQUIRE(batch);
  CHECK((*batch)[0].type() == keel::Type{keel::u8, {3}});
  CHECK((*batch)[0].data<uint8_t>()[2] == 9);
  CHECK_THROWS_WITH_AS(Dataset::from_idx({{"b", idx, 3}}), doctest::Contains("a.idx"), Error);
  std::filesystem::remove_all(folder);

  CHECK_THROWS_AS(Dataset::from_tensors({}), Error);
  CHECK_THROWS_AS(Dataset::from_tensors({{"s", Tensor::scalar<float>(1)}}), Error);
  CHECK_THROWS_AS(Dataset::from_tensors({{"s", Tensor()}}), Error);
  CHECK_THROWS_WITH_AS(
      Dataset::from_tensors({{"a", Tensor(keel::u8, {3})}, {"b", Tensor(keel::u8, {4})}}),
      doctest::Contains("expected 3 rows as in 'a', got 4"), Error);
  CHECK_THROWS_AS(numbers(3).take(-1), Error);
  CHECK_THROWS_AS(numbers(3).skip(-1), Error);
  CHECK_THROWS_AS(numbers(3).shard(0, 0), Error);
  CHECK_THROWS_AS(numbers(3).shard(2, 2), Error);
  CHECK_THROWS_AS(numbers(3).repeat(-1), Error);
  CHECK_THROWS_WITH_AS(numbers(4).repeat(int64_t{1} << 62), doctest::Contains("times"), Error);
  CHECK(numbers(1).repeat(int64_t{1} << 62).size() == int64_t{1} << 62);
  CHECK_THROWS_AS(numbers(3).prefetch(0), Error);
  CHECK_THROWS_AS(doubled(numbers(3), 0), Error);
  CHECK_THROWS_AS(Dataset::interleave({}), Error);
  CHECK_THROWS_AS(Dataset::interleave({numbers(3)}, 0), Error);
  CHECK_THROWS_WITH_AS(Dataset::zip({}), doctest::Contains("parts: expected at least one"), Error);
  CHECK_THROWS_AS(numbers(3).concatenate(numbers(3).batch(1)), Error);
  CHECK_THROWS_AS(Dataset::from_generator({{{"n", {keel::i64, {-1}}}}},
                                          [](int64_t, const ItemSlot&) { return true; }),
                  Error);
  CHECK_THROWS_AS(Dataset::from_generator(kNumber, {}), Error);
  CHECK_THROWS_AS(numbers(3).filter({}), Error);
  try {
    numbers(3).take(-1);
  } catch (const Error& error) {
    CHECK(error.info().site.line == __LINE__ - 2);
  }
}

TEST_SUITE_END();
