// MetricsQueue: the ring that brings each step's rank-0 fetches from the device to the host while a
// loop runs. One producer (the device) and one consumer (the thread in loop.run). A full ring makes
// the device wait, so nothing is lost whatever the loop size; rows arrive in step order. Nothing
// allocates after construction.
#ifndef KEEL_CORE_QUEUE_METRICS_QUEUE_H
#define KEEL_CORE_QUEUE_METRICS_QUEUE_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel {

class KEEL_API MetricsQueue {
 public:
  // Makes one cell of 8 bytes for each rank-0 fetch, of the dtypes given.
  explicit MetricsQueue(std::vector<DType> columns, size_t capacity = 1024);
  ~MetricsQueue();
  MetricsQueue(const MetricsQueue&) = delete;
  MetricsQueue& operator=(const MetricsQueue&) = delete;

  const std::vector<DType>& columns() const noexcept;

  // Device side: waits while the ring is full, copies one element of each column's dtype from the
  // given addresses, and adds what the row itself shows to the step's float status. Returns that,
  // or nothing once `stop` is set while waiting or the queue is closed.
  std::optional<uint32_t> push(int64_t step, uint32_t float_status,
                               std::span<const void* const> values, const std::atomic<bool>* stop);
  // Device side: wall time that push has waited for room, in ns, since the ring was made.
  int64_t push_wait_ns() const noexcept;
  // Device side: the launch is over; pop returns kEnd after the rows before it. One launch at a
  // time: the host pops up to its kEnd before the next one ends.
  void end_launch();

  enum class PopStatus { kRow, kEnd, kTimeout };
  struct Row {
    int64_t step = 0;
    uint32_t float_status = 0;   // of the step
    std::vector<double> values;  // one a column (i64 beyond 2^53 loses digits)
  };
  // Host side: waits up to `timeout`. REQUIRES that the row has as many values as there are
  // columns.
  PopStatus pop(Row& row, std::chrono::microseconds timeout);
  // Makes push return nothing; pop returns kEnd after the rows that are there. Idempotent; any
  // thread.
  void close();
  // Makes a waiting push look at its stop flag again; any thread.
  void wake();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace keel

#endif  // KEEL_CORE_QUEUE_METRICS_QUEUE_H
