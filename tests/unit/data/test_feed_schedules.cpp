#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "keel/core/base/random.h"
#include "keel/data/feed/feed.h"

#include "host_device_for_tests.h"
#include "number_element_for_tests.h"

// Seeded schedules of producers, throwing maps, cancellations, early stops and tiny queues: nothing
// hangs, is lost or doubled, and the first error is the one that is kept. Run under the thread
// sanitizer they show no race.
TEST_SUITE_BEGIN("pipeline");

namespace {

using keel::Cursor;
using keel::Dataset;
using keel::DequeueStatus;
using keel::DeviceQueue;
using keel::Feeder;
using keel::ItemSlot;
using keel::ItemView;
using keel::testing::kNumber;

constexpr int kSchedules = 500;
constexpr int64_t kScheduledItems = 60;
constexpr int64_t kBatch = 3;

enum class End { kRun, kStopFeeder, kCloseQueue, kCancel };

struct Schedule {
  explicit Schedule(unsigned seed) : random(seed) {
    depth = 1 + pick(3);
    threads = static_cast<int>(1 + pick(3));
    epochs = 1 + pick(3);
    failing_item = pick(3) == 0 ? pick(kScheduledItems) : -1;
    prefetch = pick(3) == 0 ? 1 + pick(4) : 0;
    buffered = pick(2) == 0;
    end = static_cast<End>(pick(4));
    end_after = pick(epochs * kScheduledItems / kBatch);
  }
  int64_t pick(int64_t below) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(below));
  }
  void pause() {
    if (pick(8) == 0) std::this_thread::sleep_for(std::chrono::microseconds(pick(60)));
  }

  std::mt19937 random;
  int64_t depth, epochs, failing_item, prefetch, end_after;
  int threads;
  bool buffered;
  End end;
};

Dataset pipeline(const Schedule& s) {
  Dataset items = Dataset::from_generator(
      kNumber,
      [](int64_t index, const ItemSlot& out) {
        out.data<int64_t>(0)[0] = index;
        return true;
      },
      kScheduledItems);
  items = s.buffered ? items.shuffle_buffered(7, 1) : items.shuffle(1);
  items = items.map(kNumber,
                    [failing = s.failing_item](const ItemView& in, const ItemSlot& out) {
                      const int64_t n = in.data<int64_t>(0)[0];
                      if (n == failing) throw std::runtime_error("planned");
                      out.data<int64_t>(0)[0] = n;
                    },
                    {.threads = s.threads});
  items = items.batch(kBatch);
  if (s.prefetch > 0) items = items.prefetch(s.prefetch);
  return items.repeat(s.epochs);
}

// What a run without any end of its own yields.
std::vector<int64_t> expected_numbers(const Schedule& s) {
  Schedule undisturbed = s;
  undisturbed.failing_item = -1;
  undisturbed.threads = 1;
  undisturbed.prefetch = 0;
  keel::testing::HostBackend host;
  const auto feeder =
      keel::feed(pipeline(undisturbed), {host.device(), {{{"n", {keel::i64, {kBatch}}}}}});
  std::vector<int64_t> numbers;
  void* at = nullptr;
  Cursor cursor;
  while (feeder->queue()->dequeue({&at, 1}, &cursor, nullptr) == DequeueStatus::kElement) {
    const auto* batch = static_cast<const int64_t*>(at);
    numbers.insert(numbers.end(), batch, batch + kBatch);
    feeder->queue()->release();
  }
  return numbers;
}

void run_schedule(unsigned seed) {
  Schedule s(seed);
  const std::vector<int64_t> expected = expected_numbers(s);
  keel::testing::HostBackend host;
  const keel::FeedSpec spec{host.device(), {{{"n", {keel::i64, {kBatch}}}}}};
  const auto feeder = keel::feed(pipeline(s), spec, {.depth = s.depth});
  const std::shared_ptr<DeviceQueue> queue = feeder->queue();
  std::atomic<bool> cancel{false};
  std::atomic<int64_t> taken{0};
  std::vector<int64_t> numbers;
  DequeueStatus last = DequeueStatus::kElement;
  std::thread device([&] {
    std::mt19937 random(seed + 1);
    void* at = nullptr;
    Cursor cursor;
    while ((last = queue->dequeue({&at, 1}, &cursor, &cancel)) == DequeueStatus::kElement) {
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 60));
      const auto* batch = static_cast<const int64_t*>(at);
      numbers.insert(numbers.end(), batch, batch + kBatch);
      queue->release();
      taken.fetch_add(1);
    }
  });
  if (s.end != End::kRun) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (taken.load() < s.end_after && std::chrono::steady_clock::now() < give_up) s.pause();
    const auto begin = std::chrono::steady_clock::now();
    if (s.end == End::kStopFeeder) feeder->stop();
    if (s.end == End::kCloseQueue) queue->close();
    if (s.end == End::kCancel) {
      cancel = true;
      queue->wake();
      feeder->stop();
    }
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
  }
  device.join();
  feeder->stop();

  REQUIRE(numbers.size() <= expected.size());
  CHECK(std::equal(numbers.begin(), numbers.end(), expected.begin()));
  CHECK(static_cast<int64_t>(numbers.size()) == queue->counters().dequeued * kBatch);
  if (last == DequeueStatus::kEndOfData) CHECK(numbers.size() == expected.size());
  if (last == DequeueStatus::kFailed) {
    CHECK(s.failing_item >= 0);
    CHECK(std::string(queue->failure().what()).find("planned") != std::string::npos);
    // Every batch before the one with the failing item was there.
    const auto at = std::find(expected.begin(), expected.end(), s.failing_item) - expected.begin();
    const auto complete = static_cast<size_t>(at / kBatch * kBatch);
    CHECK(numbers.size() <= complete);
    if (s.prefetch == 0) CHECK(numbers.size() == complete);
  }
  if (s.end == End::kRun)
    CHECK(last == (s.failing_item >= 0 ? DequeueStatus::kFailed : DequeueStatus::kEndOfData));
}

}  // namespace

TEST_CASE("feed: seeded schedules of failures and stops and tiny queues") {
  for (unsigned seed = 0; seed < kSchedules; ++seed) {
    CAPTURE(seed);
    run_schedule(seed);
  }
}

TEST_SUITE_END();
