// What a feeder tells where its thread has no memory left, not even to say what failed.
#include <array>
#include <new>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "keel/data/feed/feed.h"

#include "counted_allocations.h"
#include "host_device_for_tests.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("pipeline");

TEST_CASE("feed: a thread without memory ends the feed with an error and not the process") {
  if (!keel::testing::can_count_allocations()) {
    MESSAGE("keel test skipped: a sanitizer owns the allocator");
    return;
  }
  keel::testing::HostBackend host;
  const keel::ElementSpec element{{{"n", {keel::i64, {}}}}};
  for (const bool says_so : {true, false}) {
    CAPTURE(says_so);
    const auto numbers =
        keel::Dataset::from_generator(element, [says_so](int64_t index, const keel::ItemSlot& out) {
          out.data<int64_t>(0)[0] = index;
          if (index < 2) return true;
          const std::runtime_error error("a text that takes memory to be quoted");
          keel::testing::refuse_allocations_of_this_thread();
          if (says_so) throw std::bad_alloc();
          throw error;
        });
    const auto feeder = keel::feed(numbers, {host.device(), element}, {.name = "numbers"});
    std::array<void*, 1> fields{};
    for (int64_t i = 0; i < 2; ++i) {
      REQUIRE(feeder->queue()->dequeue(fields, nullptr, nullptr) == keel::DequeueStatus::kElement);
      CHECK(*static_cast<const int64_t*>(fields[0]) == i);
      feeder->queue()->release();
    }
    REQUIRE(feeder->queue()->dequeue(fields, nullptr, nullptr) == keel::DequeueStatus::kFailed);
    const std::string text = feeder->queue()->failure().what();
    CHECK_MESSAGE(
        keel_test::contains(text, "there is no memory for the next element of queue 'numbers'"),
        text);
    // The feeder can be opened anew.
    feeder->open({});
    CHECK(feeder->queue()->dequeue(fields, nullptr, nullptr) == keel::DequeueStatus::kElement);
    feeder->stop();
  }
}

TEST_SUITE_END();
