// The cursor of n datasets that were concatenated one by one took time that grew as 4^n, so that
// neither an iterator nor a feeder of a few dozen came to an end.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"

#include "support/numbers.h"

namespace keel {
namespace {

using keel_test::numbers;

constexpr int64_t kParts = 64;

// Part i has the items 4 i to 4 i + 3, in batches of `batch`.
Dataset chained_parts(int64_t batch) {
  const auto part = [&](int64_t i) { return numbers(4, 4 * i).batch(batch); };
  Dataset all = part(0);
  for (int64_t i = 1; i < kParts; ++i) all = all.concatenate(part(i));
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a chain of many datasets has cursors that are there at once") {
  for (const int64_t batch : {1, 2}) {
    CAPTURE(batch);
    const Dataset all = chained_parts(batch);
    const int64_t elements = 4 * kParts / batch;
    CHECK(all.size() == elements);
    DatasetIterator items(all);
    Cursor within;
    for (int64_t i = 0; i < elements; ++i) {
      const auto item = items.next();
      REQUIRE(item);
      CHECK((*item)[0].data<int64_t>()[0] == i * batch);
      // That of the last element is the beginning of the next pass.
      if (i + 1 < elements) CHECK(items.cursor().position == (i + 1) * batch);
      if (i == 40) within = items.cursor();
    }
    CHECK_FALSE(items.next());
    DatasetIterator resumed(all);
    resumed.restore(within);
    CHECK((*resumed.next())[0].data<int64_t>()[0] == 41 * batch);
  }
}

TEST_SUITE_END();

}  // namespace keel
