#include <array>
#include <limits>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/core/device/float_status.h"
#include "keel/core/queue/metrics_queue.h"

TEST_SUITE_BEGIN("queue");

namespace {

using keel::MetricsQueue;
using PopStatus = MetricsQueue::PopStatus;
using std::chrono::microseconds;
using std::chrono::milliseconds;

bool push_one(MetricsQueue& queue, int64_t step, float value,
              const std::atomic<bool>* stop = nullptr) {
  const std::array<const void*, 1> values{&value};
  return queue.push(step, 0, values, stop).has_value();
}

MetricsQueue::Row row_of(size_t columns) {
  MetricsQueue::Row row;
  row.values.resize(columns);
  return row;
}

}  // namespace

TEST_CASE("metrics queue: every dtype arrives as its value") {
  MetricsQueue queue(
      {keel::f64, keel::f32, keel::f16, keel::bf16, keel::i64, keel::i32, keel::u8, keel::boolean},
      2);
  const double a = 1.0 / 3.0;
  const float b = 0.1f;
  const keel::Half c(2.5f);
  const keel::BFloat16 d(-3.0f);
  const int64_t e = -(int64_t{1} << 40);
  const int32_t f = -7;
  const uint8_t g = 255;
  const bool h = true;
  const std::array<const void*, 8> values{&a, &b, &c, &d, &e, &f, &g, &h};
  REQUIRE(queue.push(41, 0, values, nullptr));
  MetricsQueue::Row row = row_of(8);
  REQUIRE(queue.pop(row, milliseconds(0)) == PopStatus::kRow);
  CHECK(row.step == 41);
  CHECK(row.values == std::vector<double>{a, static_cast<double>(b), 2.5, -3.0,
                                          static_cast<double>(e), -7.0, 255.0, 1.0});
}

TEST_CASE("metrics queue: the end of a launch comes behind its rows and before the next ones") {
  MetricsQueue queue({keel::f32}, 4);
  MetricsQueue::Row row = row_of(1);
  CHECK(queue.pop(row, microseconds(50)) == PopStatus::kTimeout);
  push_one(queue, 0, 1.0f);
  push_one(queue, 1, 2.0f);
  queue.end_launch();
  push_one(queue, 2, 3.0f);
  CHECK(queue.pop(row, microseconds(0)) == PopStatus::kRow);
  CHECK(queue.pop(row, microseconds(0)) == PopStatus::kRow);
  CHECK(row.step == 1);
  CHECK(row.values[0] == 2.0);
  CHECK(queue.pop(row, microseconds(0)) == PopStatus::kEnd);
  CHECK(queue.pop(row, microseconds(0)) == PopStatus::kRow);
  CHECK(row.step == 2);
  CHECK(queue.pop(row, microseconds(0)) == PopStatus::kTimeout);
  queue.end_launch();
  CHECK(queue.pop(row, microseconds(0)) == PopStatus::kEnd);
}

TEST_CASE("metrics queue: a ring smaller than the rows makes the device wait and loses nothing") {
  for (const size_t capacity : {size_t{1}, size_t{2}, size_t{7}}) {
    MetricsQueue queue({keel::f32, keel::i64}, capacity);
    constexpr int64_t kRows = 3000;
    std::thread device([&] {
      for (int64_t i = 0; i < kRows; ++i) {
        const auto value = static_cast<float>(i) * 0.5f;
        const int64_t count = i * i;
        const std::array<const void*, 2> values{&value, &count};
        queue.push(i, 0, values, nullptr);
      }
      queue.end_launch();
    });
    int64_t expected = 0;
    MetricsQueue::Row row = row_of(2);
    while (true) {
      const PopStatus status = queue.pop(row, milliseconds(100));
      if (status == PopStatus::kTimeout) continue;
      if (status == PopStatus::kEnd) break;
      REQUIRE(row.step == expected);
      REQUIRE(row.values[0] == static_cast<double>(expected) * 0.5);
      REQUIRE(row.values[1] == static_cast<double>(expected * expected));
      ++expected;
    }
    device.join();
    CHECK(expected == kRows);
  }
}

TEST_CASE("metrics queue: stop and close free a waiting device") {
  MetricsQueue queue({keel::f32}, 1);
  push_one(queue, 0, 0.0f);
  std::atomic<bool> stop{false};
  bool pushed = true;
  std::thread device([&] { pushed = push_one(queue, 1, 0.0f, &stop); });
  std::this_thread::sleep_for(milliseconds(10));
  stop = true;
  queue.wake();
  device.join();
  CHECK_FALSE(pushed);

  std::thread again([&] { pushed = push_one(queue, 1, 0.0f); });
  std::this_thread::sleep_for(milliseconds(10));
  queue.close();
  again.join();
  CHECK_FALSE(pushed);
  MetricsQueue::Row row = row_of(1);
  CHECK(queue.pop(row, microseconds(0)) == PopStatus::kRow);
  CHECK(queue.pop(row, microseconds(0)) == PopStatus::kEnd);
  CHECK_FALSE(push_one(queue, 2, 0.0f));
}

TEST_CASE("metrics queue: a number that is infinite or NaN shows in its row's status") {
  MetricsQueue queue({keel::f32, keel::f16, keel::i64}, 8);
  const auto status_of = [&](float a, float b) {
    const keel::Half half(b);
    const int64_t count = std::numeric_limits<int64_t>::max();
    const std::array<const void*, 3> values{&a, &half, &count};
    const auto pushed = queue.push(1, keel::kFloatStatusF16Overflow, values, nullptr);
    MetricsQueue::Row row = row_of(3);
    REQUIRE(queue.pop(row, microseconds(0)) == PopStatus::kRow);
    CHECK(row.float_status == pushed);
    return row.float_status & ~keel::kFloatStatusF16Overflow;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(status_of(1, 2) == 0);
  CHECK(status_of(std::numeric_limits<float>::max(), 0) == 0);
  CHECK(status_of(infinity, 0) == keel::kFloatStatusNotFinite);
  CHECK(status_of(0, -infinity) == keel::kFloatStatusNotFinite);
  CHECK(status_of(std::numeric_limits<float>::quiet_NaN(), 0) == keel::kFloatStatusNotFinite);
}

TEST_CASE("metrics queue: without columns the rows carry steps alone") {
  MetricsQueue queue({}, 2);
  REQUIRE(queue.push(9, 4, {}, nullptr));
  MetricsQueue::Row row;
  CHECK(queue.pop(row, microseconds(0)) == PopStatus::kRow);
  CHECK(row.step == 9);
  CHECK(row.float_status == 4);
}

TEST_CASE("metrics queue: misuse is an error") {
  CHECK_THROWS_AS(MetricsQueue({keel::f32}, 0), keel::Error);
  CHECK_THROWS_AS(MetricsQueue({keel::DType::kToken}, 4), keel::Error);
  MetricsQueue queue({keel::f32}, 1);
  CHECK_THROWS_AS(queue.push(0, 0, {}, nullptr), keel::Error);
  MetricsQueue::Row row;
  CHECK_THROWS_AS(queue.pop(row, microseconds(0)), keel::Error);
}

TEST_SUITE_END();
