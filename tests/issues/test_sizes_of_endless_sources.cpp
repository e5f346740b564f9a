// What is taken of a repeat without end had no known number, and so could not be split.
#include <cstdint>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"

#include "support/numbers.h"
#include "support/read_dataset.h"

TEST_SUITE_BEGIN("data");

namespace {

using namespace keel;
using keel_test::all_numbers;
using keel_test::numbers;
using Numbers = std::vector<int64_t>;

}  // namespace

TEST_CASE("what is taken of a repeat without end has a size") {
  const Dataset seven = numbers(5).repeat().take(7);
  CHECK(seven.size() == 7);
  CHECK(all_numbers(seven) == Numbers{0, 1, 2, 3, 4, 0, 1});
  const auto [training, validation] = seven.split(2);
  CHECK(all_numbers(training) == Numbers{0, 1, 2, 3, 4});
  CHECK(all_numbers(validation) == Numbers{0, 1});
  CHECK(numbers(5).repeat().skip(3).take(4).size() == 4);
  CHECK(numbers(5).repeat().shard(2, 1).take(4).batch(2).size() == 2);
  CHECK(all_numbers(numbers(5).repeat().shard(2, 1).take(4)) == Numbers{1, 3, 0, 2});
  CHECK(numbers(5).filter([](const ItemView&) { return true; }).repeat().take(7).size() == 7);
  CHECK(numbers(5).repeat().take(0).size() == 0);
}

TEST_CASE("sizes stay unknown where the end is and no passes of an endless source are none") {
  CHECK(numbers(5).repeat().size() == std::nullopt);
  CHECK(numbers(5).repeat().skip(2).size() == std::nullopt);
  const Dataset some = numbers(5).filter([](const ItemView&) { return true; });
  CHECK(some.take(7).size() == std::nullopt);
  CHECK(some.repeat(3).take(7).size() == std::nullopt);
  CHECK(numbers(5).repeat().repeat(0).take(7).size() == 0);
  CHECK(all_numbers(numbers(5).repeat().repeat(0).take(7)).empty());
}

TEST_SUITE_END();
