#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "keel/core/queue/device_queue.h"

#include "host_device_for_tests.h"

TEST_SUITE_BEGIN("queue");

namespace {

using keel::Cursor;
using keel::DequeueStatus;
using keel::DeviceQueue;
using keel::Error;
using std::chrono::milliseconds;

keel::ElementSpec number_spec() {
  return {{{"number", {keel::i64, {}}}, {"bytes", {keel::u8, {3}}}}};
}

// Commits an element that says `number` in both fields.
bool put(DeviceQueue& queue, int64_t number, const std::atomic<bool>* stop = nullptr) {
  DeviceQueue::Slot* slot = queue.reserve(stop);
  if (slot == nullptr) return false;
  std::memcpy(slot->fields[0], &number, sizeof(number));
  std::memset(slot->fields[1], static_cast<int>(number & 0xff), 3);
  queue.commit(
      {.epoch = number / 10, .position = number % 10, .key = static_cast<uint64_t>(number) * 3});
  return true;
}

struct Taken {
  DequeueStatus status = DequeueStatus::kClosed;
  int64_t number = -1;
  Cursor cursor;
};

Taken take(DeviceQueue& queue, const std::atomic<bool>* stop = nullptr, bool release = true) {
  std::array<void*, 2> fields{};
  Taken taken;
  taken.status = queue.dequeue(fields, &taken.cursor, stop);
  if (taken.status != DequeueStatus::kElement) return taken;
  std::memcpy(&taken.number, fields[0], sizeof(taken.number));
  const auto* bytes = static_cast<const unsigned char*>(fields[1]);
  for (int i = 0; i < 3; ++i) CHECK(bytes[i] == (taken.number & 0xff));
  if (release) queue.release();
  return taken;
}

}  // namespace

TEST_CASE("element spec: fields start at multiples of 64") {
  const keel::ElementSpec spec{{{"a", {keel::u8, {65}}},
                                {"b", {keel::f32, {2, 2}}},
                                {"none", {keel::f32, {0}}},
                                {"c", {keel::boolean, {}}}}};
  CHECK(spec.offsets() == std::vector<size_t>{0, 128, 192, 192});
  CHECK(spec.slot_bytes() == 256);
  CHECK(to_string(spec) == "(a: u8[65], b: f32[2, 2], none: f32[0], c: bool[])");
  CHECK(keel::ElementSpec{}.slot_bytes() == 0);
}

TEST_CASE("element spec: unknown and overflowing dimensions are errors") {
  const keel::ElementSpec unknown{{{"a", {keel::u8, {-1, 4}}}}};
  CHECK_THROWS_WITH_AS(unknown.slot_bytes(), doctest::Contains("field 'a'"), Error);
  const keel::ElementSpec large{
      {{"a", {keel::u8, {int64_t{1} << 62}}}, {"b", {keel::u8, {int64_t{1} << 62}}}}};
  CHECK_THROWS_AS(large.slot_bytes(), Error);
}

TEST_CASE("default depth: bounded by count and by bytes") {
  CHECK(keel::default_queue_depth(0) == 128);
  CHECK(keel::default_queue_depth(78400) == 128);
  CHECK(keel::default_queue_depth(size_t{1} << 24) == 128);
  CHECK(keel::default_queue_depth(size_t{1} << 26) == 32);
  CHECK(keel::default_queue_depth(size_t{1} << 30) == 2);
  CHECK(keel::default_queue_depth(size_t{1} << 40) == 2);
}

TEST_CASE("device queue: elements arrive in order with their cursors through a ring that wraps") {
  keel::testing::HostBackend host;
  DeviceQueue queue(host.device(), number_spec(), {.name = "q", .depth = 3});
  CHECK(host.allocated_bytes == 4 * 128);
  CHECK(queue.transfer_device_ns() == 256);
  int64_t next = 0;
  for (int64_t i = 0; i < 25; ++i) {
    REQUIRE(put(queue, i));
    if (i % 3 == 2) {
      while (next <= i) {
        const Taken taken = take(queue);
        REQUIRE(taken.status == DequeueStatus::kElement);
        CHECK(taken.number == next);
        CHECK(taken.cursor == Cursor{next / 10, next % 10, static_cast<uint64_t>(next) * 3});
        ++next;
      }
    }
  }
  const keel::QueueCounters counters = queue.counters();
  CHECK(counters.depth == 3);
  CHECK(counters.enqueued == 25);
  CHECK(counters.dequeued == 24);
  CHECK(counters.released == 24);
  CHECK(counters.producer_wait_ns == 0);
  CHECK(counters.consumer_wait_ns == 0);
  CHECK(counters.last_enqueue_ns >= 0);
}

TEST_CASE("device queue: an element that is put back is the next one again") {
  keel::testing::HostBackend host;
  DeviceQueue queue(host.device(), number_spec(), {.name = "q", .depth = 2});
  for (int64_t i = 0; i < 2; ++i) REQUIRE(put(queue, i));
  CHECK(!queue.last_cursor());
  CHECK(take(queue, nullptr, /*release=*/false).number == 0);
  CHECK(queue.last_cursor() == Cursor{0, 0, 0});
  // The producer gets the room that was made, and keeps it though the element comes back.
  REQUIRE(queue.reserve() != nullptr);
  queue.put_back();
  CHECK(!queue.last_cursor());
  REQUIRE(put(queue, 2));
  CHECK(queue.counters().dequeued == 0);
  std::atomic<bool> stop{true};
  CHECK(queue.reserve(&stop) == nullptr);
  for (int64_t i = 0; i < 3; ++i) {
    const Taken taken = take(queue);
    CHECK(taken.number == i);
    CHECK(taken.cursor.position == i);
    CHECK(queue.last_cursor() == taken.cursor);
  }
  CHECK(queue.occupancy() == std::vector<int64_t>{0, 1, 3});
  CHECK_THROWS_AS(queue.put_back(), Error);  // it was released
}

TEST_CASE("device queue: behind an element that is put back stays the one before") {
  keel::testing::HostBackend host;
  DeviceQueue queue(host.device(), number_spec(), {.depth = 1});
  REQUIRE(put(queue, 3));
  take(queue);
  REQUIRE(put(queue, 4));
  take(queue, nullptr, /*release=*/false);
  CHECK(queue.last_cursor() == Cursor{0, 4, 12});
  REQUIRE(put(queue, 5));  // into the slot that the first one had
  queue.put_back();
  CHECK(queue.last_cursor() == Cursor{0, 3, 9});
}

TEST_CASE("device queue: copies count with the elements that are taken and not put back") {
  keel::testing::HostBackend host;  // with memory of its own: a copy of each slot
  DeviceQueue queue(host.device(), number_spec(), {.depth = 3});
  for (int64_t i = 0; i < 3; ++i) REQUIRE(put(queue, i));
  CHECK(queue.counters().copies == 0);  // nobody has taken them
  take(queue);
  take(queue, nullptr, /*release=*/false);
  CHECK(queue.counters().copies == 2);
  CHECK(queue.counters().copied_bytes == 2 * 128);  // two fields at multiples of 64
  queue.put_back();
  CHECK(queue.counters().copies == 1);
  CHECK(queue.counters().copied_bytes == 128);
}

TEST_CASE("device queue: without a data sink an element is made when asked for and not copied") {
  keel::testing::HostBackend host;
  host.copies_until_failure = 0;
  DeviceQueue queue(host.device(), number_spec(), {.data_sink = false});
  CHECK(host.allocated_bytes == 0);
  CHECK(queue.counters().depth == 1);
  std::atomic<int64_t> made{0};
  std::thread producer([&] {
    while (put(queue, made)) ++made;
  });
  std::array<void*, 2> fields{};
  for (int64_t i = 0; i < 100; ++i) {
    Cursor cursor;
    REQUIRE(queue.dequeue_on_host(fields, &cursor, nullptr) == DequeueStatus::kElement);
    int64_t number = -1;
    std::memcpy(&number, fields[0], sizeof(number));
    CHECK(number == i);
    CHECK(cursor.position == i % 10);
    CHECK(queue.counters().enqueued == i + 1);
    if (i % 7 == 3) {
      queue.put_back();
      REQUIRE(queue.dequeue_on_host(fields, &cursor, nullptr) == DequeueStatus::kElement);
      CHECK(queue.counters().enqueued == i + 1);
    }
    queue.release();
  }
  queue.close();
  producer.join();
  CHECK(made == 100);
  CHECK(queue.counters().copies == 0);
}

TEST_CASE("device queue: a slot that is being read is not written and depth more can wait") {
  keel::testing::HostBackend host;
  DeviceQueue queue(host.device(), number_spec(), {.name = "q", .depth = 2});
  const std::atomic<bool> stop{true};
  REQUIRE(put(queue, 0));
  REQUIRE(put(queue, 1));
  std::array<void*, 2> first{};
  Cursor cursor;
  REQUIRE(queue.dequeue(first, &cursor, nullptr) == DequeueStatus::kElement);
  REQUIRE(put(queue, 2));
  CHECK(queue.counters().enqueued - queue.counters().dequeued == 2);
  // No slot is left: with a raised stop flag reserve does not wait.
  CHECK(queue.reserve(&stop) == nullptr);
  int64_t value = -1;
  std::memcpy(&value, first[0], sizeof(value));
  CHECK(value == 0);
  queue.release();
  CHECK(take(queue).number == 1);
  CHECK(put(queue, 3));
}

TEST_CASE("device queue: end and failure come behind the elements and the first of them counts") {
  keel::testing::HostBackend host;
  DeviceQueue ending(host.device(), number_spec(), {.depth = 4});
  put(ending, 1);
  put(ending, 2);
  ending.finish();
  ending.fail(Error("too late"));
  CHECK(take(ending).number == 1);
  CHECK(take(ending).number == 2);
  CHECK(take(ending).status == DequeueStatus::kEndOfData);
  CHECK(take(ending).status == DequeueStatus::kEndOfData);
  CHECK_THROWS_AS(ending.reserve(), Error);

  DeviceQueue failing(host.device(), number_spec(), {.depth = 4});
  put(failing, 7);
  failing.fail(Error({.op = "map", .message = "item 8"}));
  failing.fail(Error("second"));
  failing.close();
  CHECK(take(failing).number == 7);
  CHECK(take(failing).status == DequeueStatus::kFailed);
  CHECK(std::string(failing.failure().what()) == "map: item 8");
}

TEST_CASE("device queue: the producer waits while the ring is full") {
  keel::testing::HostBackend host;
  DeviceQueue queue(host.device(), number_spec(), {.depth = 2});
  std::thread producer([&] {
    for (int64_t i = 0; i < 10; ++i) put(queue, i);
  });
  while (queue.counters().enqueued < 2) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(20));
  CHECK(queue.counters().enqueued == 2);
  for (int64_t i = 0; i < 10; ++i) CHECK(take(queue).number == i);
  producer.join();
  CHECK(queue.counters().producer_wait_ns >= 10'000'000);
}

TEST_CASE("device queue: the consumer waits while the ring is empty") {
  keel::testing::HostBackend host;
  DeviceQueue queue(host.device(), number_spec(), {.depth = 2});
  std::thread producer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    put(queue, 5);
  });
  CHECK(take(queue).number == 5);
  producer.join();
  CHECK(queue.counters().consumer_wait_ns >= 10'000'000);
}

TEST_CASE(
    "device queue: a timeout that is longer than nanoseconds can count does not end at once") {
  keel::testing::HostBackend host;
  // 2^64 ns are 18446744073709.6 ms, so that each of these was less than a second.
  for (const milliseconds limit : {milliseconds(18446744073710), milliseconds::max()}) {
    DeviceQueue queue(host.device(), number_spec(), {.getnext_timeout = limit});
    std::thread closer([&] {
      std::this_thread::sleep_for(milliseconds(30));
      queue.close();
    });
    CHECK(take(queue).status == DequeueStatus::kClosed);
    closer.join();
  }
}

TEST_CASE("device queue: a timeout names the queue and its counters") {
  keel::testing::HostBackend host;
  DeviceQueue queue(host.device(), number_spec(),
                    {.name = "train", .depth = 2, .getnext_timeout = milliseconds(5)});
  CHECK(take(queue).status == DequeueStatus::kTimeout);
  CHECK(std::string(queue.timeout_error().what()) ==
        "queue 'train': no element within 5 ms (depth 2, enqueued 0, dequeued 0, nothing was "
        "enqueued yet); make the pipeline faster or raise getnext_timeout");
  put(queue, 1);
  CHECK(take(queue).number == 1);
  CHECK(take(queue).status == DequeueStatus::kTimeout);
  const std::string text = queue.timeout_error().what();
  CHECK(text.find("(depth 2, enqueued 1, dequeued 1, last enqueue ") != std::string::npos);
}

TEST_CASE("device queue: close wakes a sleeping producer and a sleeping consumer") {
  keel::testing::HostBackend host;
  DeviceQueue full(host.device(), number_spec(), {.depth = 1});
  std::atomic<bool> refused{false};
  std::thread producer([&] {
    while (put(full, 1)) {
    }
    refused = true;
  });
  std::this_thread::sleep_for(milliseconds(10));
  full.close();
  producer.join();
  CHECK(refused);
  CHECK(take(full).status == DequeueStatus::kElement);
  CHECK(take(full).status == DequeueStatus::kClosed);

  DeviceQueue empty(host.device(), number_spec(), {.depth = 1});
  DequeueStatus status = DequeueStatus::kElement;
  std::thread consumer([&] { status = take(empty).status; });
  std::this_thread::sleep_for(milliseconds(10));
  empty.close();
  empty.close();
  consumer.join();
  CHECK(status == DequeueStatus::kClosed);
}

TEST_CASE("device queue: stop flags are seen after wake") {
  keel::testing::HostBackend host;
  DeviceQueue queue(host.device(), number_spec(), {.depth = 1});
  std::atomic<bool> stop{false};
  DequeueStatus status = DequeueStatus::kElement;
  std::thread consumer([&] { status = take(queue, &stop).status; });
  std::this_thread::sleep_for(milliseconds(10));
  stop = true;
  queue.wake();
  consumer.join();
  CHECK(status == DequeueStatus::kCancelled);

  stop = false;
  put(queue, 1);
  bool more = true;
  std::thread producer([&] { more = put(queue, 2, &stop); });
  std::this_thread::sleep_for(milliseconds(10));
  stop = true;
  queue.wake();
  producer.join();
  CHECK_FALSE(more);
  // Neither side is closed: the element is still there, and it comes before the flag.
  CHECK(take(queue, &stop).number == 1);
}

TEST_CASE("device queue: misuse and failing copies are errors that leave it working") {
  keel::testing::HostBackend host;
  CHECK_THROWS_AS(DeviceQueue(host.device(), number_spec(), {.depth = -1}), Error);
  CHECK_THROWS_AS(DeviceQueue(host.device(), number_spec(), {.getnext_timeout = milliseconds(-1)}),
                  Error);
  CHECK_THROWS_AS(DeviceQueue(host.device(), {{{"a", {keel::u8, {-1}}}}}), Error);
  CHECK_THROWS_AS(DeviceQueue(keel::Device(), number_spec()), Error);

  DeviceQueue queue(host.device(), number_spec(), {.depth = 1});
  CHECK_THROWS_AS(queue.release(), Error);
  std::array<void*, 1> short_fields{};
  Cursor cursor;
  CHECK_THROWS_AS(queue.dequeue(short_fields, &cursor, nullptr), Error);

  host.copies_until_failure = 0;
  CHECK_THROWS_WITH_AS(put(queue, 1), "the copy failed", Error);
  CHECK(queue.counters().enqueued == 0);
  host.copies_until_failure = -1;
  CHECK(put(queue, 2));
  CHECK(take(queue).number == 2);
  put(queue, 3);
  CHECK_THROWS_AS(queue.commit({}), Error);
}

TEST_CASE("device queue: two threads with random pauses lose and double nothing") {
  keel::testing::HostBackend host;
  for (unsigned seed = 0; seed < 12; ++seed) {
    DeviceQueue queue(host.device(), number_spec(), {.depth = 1 + seed % 4});
    constexpr int64_t kCount = 1500;
    std::thread producer([&, seed] {
      std::mt19937 random(seed);
      for (int64_t i = 0; i < kCount; ++i) {
        if (random() % 64 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
        put(queue, i);
      }
      queue.finish();
    });
    std::mt19937 random(seed + 100);
    int64_t expected = 0;
    int64_t held = 0;
    while (true) {
      if (random() % 64 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
      const Taken taken = take(queue, nullptr, false);
      if (taken.status != DequeueStatus::kElement) {
        CHECK(taken.status == DequeueStatus::kEndOfData);
        break;
      }
      REQUIRE(taken.number == expected++);
      ++held;
      // Sometimes two elements are held at once; more than the ring has would wait for ever.
      if (held == 2 || queue.counters().depth == 1 || random() % 2 == 0) {
        while (held > 0) {
          queue.release();
          --held;
        }
      }
    }
    producer.join();
    CHECK(expected == kCount);
    CHECK(queue.counters().enqueued == kCount);
    CHECK(queue.counters().dequeued == kCount);
  }
}

TEST_SUITE_END();
