// What the tests of graph/runtime share: a feeder that makes elements from their number, and a
// small model whose values are exact in f32.
#ifndef KEEL_TESTS_UNIT_RUNTIME_FOR_TESTS_H
#define KEEL_TESTS_UNIT_RUNTIME_FOR_TESTS_H

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "keel/core/queue/feeder.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/reduce.h"

#include "support/error_of.h"

namespace keel::testing {

using keel_test::contains;
using keel_test::error_of;

// Fills element i through `fill(i, fields)` until it returns false; the cursor's position counts.
class NumberFeeder : public Feeder {
 public:
  using Fill = std::function<bool(int64_t, const std::vector<void*>&)>;

  NumberFeeder(Device device, ElementSpec spec, Fill fill, DeviceQueueOptions options = {})
      : device_(device),
        spec_(std::move(spec)),
        fill_(std::move(fill)),
        options_(std::move(options)) {}
  ~NumberFeeder() override { stop(); }

  void open(const Cursor& cursor) override {
    queue_ = std::make_shared<DeviceQueue>(device_, spec_, options_);
    stopping_ = false;
    ++opened;
    thread_ = std::thread([this, queue = queue_, begin = cursor.position] { feed(*queue, begin); });
  }
  void stop() override {
    stopping_ = true;
    if (queue_ != nullptr) queue_->close();
    if (thread_.joinable()) thread_.join();
  }
  const std::shared_ptr<DeviceQueue>& queue() const override { return queue_; }

  int opened = 0;

 private:
  void feed(DeviceQueue& queue, int64_t position) {
    try {
      for (;; ++position) {
        DeviceQueue::Slot* slot = queue.reserve(&stopping_);
        if (slot == nullptr) return;
        if (!fill_(position, slot->fields)) break;
        queue.commit({0, position + 1, 0});
      }
      queue.finish();
    } catch (const Error& error) {
      queue.fail(error);
    }
  }

  Device device_;
  ElementSpec spec_;
  Fill fill_;
  DeviceQueueOptions options_;
  std::shared_ptr<DeviceQueue> queue_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// next w = w / 2 + the sum of x's rows; total = the sum of the next w.
struct HalvingModel {
  HalvingModel() {
    const Value sums = sum(x, {0});
    next = w * 0.5f + sums;
    total = sum(next);
    update.assignments.push_back({w, next});
  }

  Graph graph;
  Value x = graph.input("x", f32, {-1, 2});
  Value w = graph.state("w", from_tensor(Tensor::of<float>({2}, {8, 16})));
  Value next;
  Value total;
  Update update;
};

// The same arithmetic in doubles, for x = [[i, 1]] in step i (from 0).
struct HalvingExpectation {
  double first = 8;
  double second = 16;
  int64_t step = 0;
  double advance() {
    first = first / 2 + static_cast<double>(step++);
    second = second / 2 + 1;
    return first + second;
  }
};

inline ElementSpec halving_element() { return {{{"x", {f32, {1, 2}}}}}; }

inline std::shared_ptr<NumberFeeder> halving_feeder(Device device, int64_t elements,
                                                    DeviceQueueOptions options = {}) {
  auto feeder = std::make_shared<NumberFeeder>(
      device, halving_element(),
      [elements](int64_t i, const std::vector<void*>& fields) {
        auto* x = static_cast<float*>(fields[0]);
        x[0] = static_cast<float>(i);
        x[1] = 1;
        return i < elements;
      },
      options);
  feeder->open({});
  return feeder;
}

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_RUNTIME_FOR_TESTS_H
