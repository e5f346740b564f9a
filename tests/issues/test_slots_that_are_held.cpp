// A producer slept though there was room, where the consumer held most of the slots, and the
// consumer waited for it.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include <doctest/doctest.h>

#include "keel/core/queue/device_queue.h"

#include "unit/host_device_for_tests.h"

namespace keel {
namespace {

// The i-th element holds the number i.
class NumberedQueue {
 public:
  explicit NumberedQueue(int64_t depth)
      : queue_(host_.device(), ElementSpec{{{"n", {i64, {}}}}},
               {.name = "q", .depth = depth, .getnext_timeout = std::chrono::seconds(5)}),
        producer_([this] {
          for (int64_t i = 0; DeviceQueue::Slot* slot = queue_.reserve(); ++i) {
            std::memcpy(slot->fields[0], &i, sizeof(i));
            queue_.commit({});
          }
        }) {}
  ~NumberedQueue() {
    queue_.close();
    producer_.join();
  }

  // Returns the next element's number, or -1 where there is none in time.
  int64_t take() {
    void* field = nullptr;
    Cursor cursor;
    if (queue_.dequeue({&field, 1}, &cursor, nullptr) != DequeueStatus::kElement) return -1;
    int64_t number = 0;
    std::memcpy(&number, field, sizeof(number));
    return number;
  }
  void release() { queue_.release(); }
  void wait_until_full(int64_t enqueued) const {
    while (queue_.counters().enqueued < enqueued) std::this_thread::yield();
    // By then the producer sleeps, most likely: that is where it was not woken.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

 private:
  testing::HostBackend host_;
  DeviceQueue queue_;
  std::thread producer_;
};

}  // namespace

TEST_SUITE_BEGIN("queue");

TEST_CASE("a consumer that holds many slots gets an element for each one that it gives back") {
  for (const int64_t depth : {2, 3, 8}) {
    CAPTURE(depth);
    NumberedQueue queue(depth);
    for (int64_t i = 0; i < depth + 1; ++i) REQUIRE(queue.take() == i);
    for (int64_t i = depth + 1; i < 5 * depth; ++i) {
      queue.wait_until_full(i);
      queue.release();
      REQUIRE(queue.take() == i);
    }
  }
}

TEST_CASE("slots that are held and given back in turns lose no wake of the producer") {
  constexpr int64_t kDepth = 8;
  NumberedQueue queue(kDepth);
  int64_t next = 0;
  for (int64_t held = 0; next < 20000;) {
    while (held < kDepth + 1) {
      REQUIRE(queue.take() == next);
      ++next;
      ++held;
    }
    for (const int64_t kept = next % (kDepth + 1); held > kept; --held) queue.release();
  }
}

TEST_SUITE_END();

}  // namespace keel
