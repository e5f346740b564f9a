// Measures whether feeding hides behind computing: a producer that takes p ms a batch (it sleeps)
// runs beside a step of s ms (products). The wall time of a step should be max(p, s), not p + s; a
// batch that takes five steps' time should not be noticed if the queue holds more than five.
//
// Usage: bench_overlap [STEPS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <keel/keel.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kRows = 128, kWidth = 384;

struct Timing {
  double wall_ms = 0;  // of a step
  double wait_ms = 0;  // of it for the queue
};

class Overlap {
 public:
  Overlap() {
    x_ = graph_.input("x", keel::f32, {kRows, kWidth});
    const keel::Value w = graph_.state("w", keel::glorot_uniform({kWidth, kWidth}));
    keel::Value h = x_;
    for (int layer = 0; layer < 4; ++layer) h = tanh(matmul(h, w));
    mean_ = mean(h);
  }

  // `slow_item` takes `slow_ms`, the others `producer_ms`. The queue is full before the clock runs.
  Timing run(int64_t steps, double producer_ms, int64_t depth, int64_t slow_item = -1,
             double slow_ms = 0) {
    keel::Session session(graph_, keel::device("npu:0"));
    const keel::ElementSpec item{{{"x", {keel::f32, {kRows, kWidth}}}}};
    const auto dataset =
        keel::Dataset::from_generator(item, [=](int64_t index, const keel::ItemSlot& out) {
          const double ms = index == slow_item ? slow_ms : producer_ms;
          if (ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
          std::fill(out.data<float>(0).begin(), out.data<float>(0).end(), 0.01f);
          return true;
        });
    const auto feeder = keel::feed(dataset, session.spec({x_}), {.name = "sleepy", .depth = depth});
    keel::Loop loop = session.sink({.fetches = {mean_}, .source = feeder});
    loop.run(2);
    while (feeder->queue()->counters().enqueued - feeder->queue()->counters().dequeued < depth) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const auto start = Clock::now();
    const keel::LoopReport report = loop.run(steps);
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    const auto count = static_cast<double>(steps);
    return {ms / count, static_cast<double>(report.queue_wait_ns) * 1e-6 / count};
  }

 private:
  keel::Graph graph_;
  keel::Value x_, mean_;
};

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::max(20, std::atoi(argv[1])) : 200;
  const keel::ComputeThreads threads(1);
  Overlap overlap;
  const double step = overlap.run(steps, 0, 2).wall_ms;
  std::printf("a step alone: s = %.2f ms wall\n", step);
  for (const double share : {0.25, 0.5, 0.9, 1.5, 2.0}) {
    const double producer = share * step;
    const Timing t = overlap.run(steps, producer, 2);
    const double longest = std::max(producer, step);
    std::printf(
        "p = %.2f ms: %.2f ms a step, %.2f of max(p, s), %.2f of p + s; queue wait %.2f ms\n",
        producer, t.wall_ms, t.wall_ms / longest, t.wall_ms / (producer + step), t.wait_ms);
  }
  for (const int64_t depth : {8, 2}) {
    const Timing even = overlap.run(40, 0.2 * step, depth);
    const Timing slow = overlap.run(40, 0.2 * step, depth, 20, 5 * step);
    std::printf(
        "one batch of five steps' time, queue of %d: %+.1f steps of wall, queue wait %.1f steps\n",
        static_cast<int>(depth), 40 * (slow.wall_ms - even.wall_ms) / step,
        40 * slow.wait_ms / step);
  }
  return 0;
}
