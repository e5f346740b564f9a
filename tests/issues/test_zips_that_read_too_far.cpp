// A zip whose first part had ended asked the other parts for as many items as before, and failed
// with what they threw for items that are in no element of it.
#include <cstdint>
#include <memory>
#include <stdexcept>

#include <doctest/doctest.h>

#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"

#include "support/error_of.h"

namespace keel {
namespace {

// Numbers in order only: `count` of them, or without an end and with an error for number 5.
Dataset counted_numbers(const char* name, std::optional<int64_t> count,
                        const std::shared_ptr<int64_t>& made) {
  return Dataset::from_generator({{{name, {i64, {}}}}}, [=](int64_t index, const ItemSlot& out) {
    if (count && index == *count) return false;
    if (index == 5) throw std::runtime_error("number 5");
    ++*made;
    out.data<int64_t>(0)[0] = index;
    return true;
  });
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a zip asks no part for items behind the end of a part before it") {
  for (const int64_t batch : {1, 3, 8}) {
    CAPTURE(batch);
    const auto made = std::make_shared<int64_t>(0), short_made = std::make_shared<int64_t>(0);
    const Dataset zipped =
        Dataset::zip({counted_numbers("a", 3, short_made), counted_numbers("b", {}, made)});
    DatasetIterator items(zipped.batch(batch, Tail::kPad));
    int64_t seen = 0;
    while (const auto element = items.next()) {
      const auto mask = (*element)[2].data<bool>();
      for (size_t i = 0; i < mask.size() && mask[i]; ++i, ++seen)
        CHECK((*element)[1].data<int64_t>()[i] == seen);
    }
    CHECK(seen == 3);
    CHECK(*made == 3);
    // Items that are passed over are asked for in the same way.
    DatasetIterator beyond(zipped);
    beyond.restore({.epoch = 0, .position = 8, .key = beyond.cursor().key});
    CHECK(keel_test::contains(keel_test::error_of([&] { beyond.next(); }), "that is shorter"));
    CHECK(*made == 6);
  }
}

TEST_SUITE_END();

}  // namespace keel
