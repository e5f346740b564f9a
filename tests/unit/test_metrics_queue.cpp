#include <array>
#include <thread>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
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
  return queue.push(step, values, stop);
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
  REQUIRE(queue.push(41, values, nullptr));
  int64_t step = 0;
  std::array<double, 8> row{};
  REQUIRE(queue.pop(step, row, milliseconds(0)) == PopStatus::kRow);
  CHECK(step == 41);
  CHECK(row == std::array<double, 8>{a, static_cast<double>(b), 2.5, -3.0, static_cast<double>(e),
                                     -7.0, 255.0, 1.0});
}

TEST_CASE("metrics queue: the end of a launch comes behind its rows and before the next ones") {
  MetricsQueue queue({keel::f32}, 4);
  int64_t step = -1;
  std::array<double, 1> row{};
  CHECK(queue.pop(step, row, microseconds(50)) == PopStatus::kTimeout);
  push_one(queue, 0, 1.0f);
  push_one(queue, 1, 2.0f);
  queue.end_launch();
  push_one(queue, 2, 3.0f);
  CHECK(queue.pop(step, row, microseconds(0)) == PopStatus::kRow);
  CHECK(queue.pop(step, row, microseconds(0)) == PopStatus::kRow);
  CHECK(step == 1);
  CHECK(row[0] == 2.0);
  CHECK(queue.pop(step, row, microseconds(0)) == PopStatus::kEnd);
  CHECK(queue.pop(step, row, microseconds(0)) == PopStatus::kRow);
  CHECK(step == 2);
  CHECK(queue.pop(step, row, microseconds(0)) == PopStatus::kTimeout);
  queue.end_launch();
  CHECK(queue.pop(step, row, microseconds(0)) == PopStatus::kEnd);
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
        queue.push(i, values, nullptr);
      }
      queue.end_launch();
    });
    int64_t expected = 0;
    int64_t step = 0;
    std::array<double, 2> row{};
    while (true) {
      const PopStatus status = queue.pop(step, row, milliseconds(100));
      if (status == PopStatus::kTimeout) continue;
      if (status == PopStatus::kEnd) break;
      REQUIRE(step == expected);
      REQUIRE(row[0] == static_cast<double>(expected) * 0.5);
      REQUIRE(row[1] == static_cast<double>(expected * expected));
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
  int64_t step = -1;
  std::array<double, 1> row{};
  CHECK(queue.pop(step, row, microseconds(0)) == PopStatus::kRow);
  CHECK(queue.pop(step, row, microseconds(0)) == PopStatus::kEnd);
  CHECK_FALSE(push_one(queue, 2, 0.0f));
}

TEST_CASE("metrics queue: without columns the rows carry steps alone") {
  MetricsQueue queue({}, 2);
  REQUIRE(queue.push(9, {}, nullptr));
  int64_t step = -1;
  CHECK(queue.pop(step, {}, microseconds(0)) == PopStatus::kRow);
  CHECK(step == 9);
}

TEST_CASE("metrics queue: misuse is an error") {
  CHECK_THROWS_AS(MetricsQueue({keel::f32}, 0), keel::Error);
  CHECK_THROWS_AS(MetricsQueue({keel::DType::kToken}, 4), keel::Error);
  MetricsQueue queue({keel::f32}, 1);
  CHECK_THROWS_AS(queue.push(0, {}, nullptr), keel::Error);
  int64_t step = 0;
  CHECK_THROWS_AS(queue.pop(step, {}, microseconds(0)), keel::Error);
}

TEST_SUITE_END();
