#include "keel/core/queue/metrics_queue.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/core/base/wait_word.h"
#include "keel/core/device/float_status.h"
#include "keel/core/queue/cache_line.h"
#include "keel/core/tensor/convert.h"

namespace keel {
namespace {

// A host that sleeps is woken for several rows at a time, since each wake takes a core from whoever
// computes; it looks for fewer rows by itself now and then, so that slow steps are seen promptly.
constexpr int64_t kRowsPerWake = 64;
constexpr std::chrono::milliseconds kLookAgain{2};

}  // namespace

struct MetricsQueue::State {
  struct Cell {
    double as_double(DType dtype) const {
      return visit_dtype(dtype, [&]<class T>() {
        T value{};
        std::memcpy(&value, bytes, sizeof(T));
        const auto number = convert_element<double>(value);
        return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number;
      });
    }
    // Returns whether it holds a number of its dtype that is neither infinite nor NaN.
    bool is_finite(DType dtype) const {
      return !is_float(dtype) || std::isfinite(as_double(dtype));
    }

    alignas(8) unsigned char bytes[8] = {};
  };

  bool wait_for_room(int64_t number, const std::atomic<bool>* stop);

  std::vector<DType> columns;
  int64_t capacity = 0;
  std::vector<int64_t> steps;      // [capacity]
  std::vector<uint32_t> statuses;  // [capacity]
  std::vector<Cell> cells;         // [capacity, columns]

  // Written by the device.
  alignas(kCacheLine) std::atomic<int64_t> pushed{0};
  int64_t push_wait_ns = 0;  // the device's own
  // Counts the rows that had been pushed when the launch ended; -1 once the host has seen that end.
  std::atomic<int64_t> end_position{-1};
  // Written by the host.
  alignas(kCacheLine) std::atomic<int64_t> popped{0};
  alignas(kCacheLine) WaitWord device_word;
  alignas(kCacheLine) WaitWord host_word;
  alignas(kCacheLine) std::atomic<bool> closed{false};
};

// False once `stop` is set or the ring closed.
bool MetricsQueue::State::wait_for_room(int64_t number, const std::atomic<bool>* stop) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> begin;
  bool room = false;
  while (true) {
    const uint32_t seen = device_word.load();
    if (closed.load(std::memory_order_acquire)) break;
    room = number - popped.load(std::memory_order_acquire) < capacity;
    if (room || (stop != nullptr && stop->load(std::memory_order_acquire))) break;
    if (!begin) begin = Clock::now();
    device_word.wait_while(seen);
  }
  if (begin) {
    push_wait_ns +=
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - *begin).count();
  }
  return room;
}

int64_t MetricsQueue::push_wait_ns() const noexcept { return state_->push_wait_ns; }

MetricsQueue::MetricsQueue(std::vector<DType> columns, size_t capacity)
    : state_(std::make_unique<State>()) {
  if (capacity == 0) {
    throw Error(
        {.op = "metrics queue", .argument = "capacity", .expected = "at least 1", .got = "0"});
  }
  for (const DType dtype : columns) {
    if (size_of(dtype) == 0) {
      throw Error({.op = "metrics queue",
                   .argument = "columns",
                   .expected = "a number",
                   .got = name_of(dtype)});
    }
  }
  const int64_t cells =
      checked_mul(static_cast<int64_t>(capacity), static_cast<int64_t>(columns.size()));
  state_->columns = std::move(columns);
  state_->capacity = static_cast<int64_t>(capacity);
  state_->steps.resize(capacity);
  state_->statuses.resize(capacity);
  state_->cells.resize(static_cast<size_t>(cells));
}

MetricsQueue::~MetricsQueue() { close(); }

const std::vector<DType>& MetricsQueue::columns() const noexcept { return state_->columns; }

std::optional<uint32_t> MetricsQueue::push(int64_t step, uint32_t float_status,
                                           std::span<const void* const> values,
                                           const std::atomic<bool>* stop) {
  State& s = *state_;
  if (values.size() != s.columns.size()) {
    throw Error({.op = "metrics queue",
                 .argument = "values",
                 .expected = std::to_string(s.columns.size()),
                 .got = std::to_string(values.size())});
  }
  const int64_t number = s.pushed.load(std::memory_order_relaxed);
  if (!s.wait_for_room(number, stop)) return std::nullopt;
  const auto row = static_cast<size_t>(number % s.capacity);
  s.steps[row] = step;
  State::Cell* cell = s.cells.data() + row * s.columns.size();
  for (size_t i = 0; i < values.size(); ++i, ++cell) {
    std::memcpy(cell->bytes, values[i], size_of(s.columns[i]));
    if (!cell->is_finite(s.columns[i])) float_status |= kFloatStatusNotFinite;
  }
  s.statuses[row] = float_status;
  s.pushed.store(number + 1, std::memory_order_release);
  const int64_t unseen = number + 1 - s.popped.load(std::memory_order_acquire);
  if (unseen % kRowsPerWake == 0 || unseen == s.capacity) s.host_word.bump();
  return float_status;
}

void MetricsQueue::end_launch() {
  State& s = *state_;
  s.end_position.store(s.pushed.load(std::memory_order_relaxed), std::memory_order_release);
  s.host_word.bump();
}

MetricsQueue::PopStatus MetricsQueue::pop(Row& to, std::chrono::microseconds timeout) {
  State& s = *state_;
  std::vector<double>& values = to.values;
  if (values.size() != s.columns.size()) {
    throw Error({.op = "metrics queue",
                 .argument = "values",
                 .expected = std::to_string(s.columns.size()),
                 .got = std::to_string(values.size())});
  }
  using Clock = std::chrono::steady_clock;
  const int64_t number = s.popped.load(std::memory_order_relaxed);
  std::optional<Clock::time_point> deadline;
  while (true) {
    const uint32_t seen = s.host_word.load();
    const bool closed = s.closed.load(std::memory_order_acquire);
    // Rows are looked at before the end: a row of the next launch implies that the end before it is
    // visible.
    const bool has_row = s.pushed.load(std::memory_order_acquire) > number;
    int64_t end = number;
    if (s.end_position.compare_exchange_strong(end, -1, std::memory_order_acq_rel))
      return PopStatus::kEnd;
    if (has_row) break;
    if (closed) return PopStatus::kEnd;
    const auto now = Clock::now();
    if (!deadline) deadline = now + timeout;
    if (now >= *deadline) return PopStatus::kTimeout;
    s.host_word.wait_while(seen, std::min<Clock::duration>(*deadline - now, kLookAgain));
  }
  const auto row = static_cast<size_t>(number % s.capacity);
  to.step = s.steps[row];
  to.float_status = s.statuses[row];
  const State::Cell* cell = s.cells.data() + row * s.columns.size();
  for (size_t i = 0; i < values.size(); ++i, ++cell) values[i] = cell->as_double(s.columns[i]);
  s.popped.store(number + 1, std::memory_order_release);
  s.device_word.bump();
  return PopStatus::kRow;
}

void MetricsQueue::close() {
  state_->closed.store(true, std::memory_order_release);
  wake();
}

void MetricsQueue::wake() {
  state_->device_word.bump();
  state_->host_word.bump();
}

}  // namespace keel
