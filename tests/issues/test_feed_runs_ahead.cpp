// An endless feed ran up to `depth` elements past a loop's end, and nothing counted them.
#include <thread>

#include <doctest/doctest.h>

#include "support/declining_backend.h"
#include "unit/runtime_for_tests.h"

namespace keel {
namespace {

using keel_test::DecliningBackend;
using testing::NumberFeeder;

constexpr int64_t kDepth = 5;

void check_elements(const Device& on) {
  Graph g;
  const Value number = g.input("number", f32, {});
  const Value total = g.state("total", from_tensor(Tensor::scalar<float>(0)));
  const Update update{{{total, total + number}}};
  Session session(g, on);
  auto feeder = std::make_shared<NumberFeeder>(
      on, ElementSpec{{{"number", {f32, {}}}}},
      [](int64_t i, const std::vector<void*>& fields) {
        *static_cast<float*>(fields[0]) = static_cast<float>(i);
        return true;
      },
      DeviceQueueOptions{.depth = kDepth});
  feeder->open({});
  Loop loop = session.sink({.update = update, .fetches = {number}, .source = feeder});
  int64_t next = 0;
  for (const int64_t steps : {int64_t{1}, int64_t{7}, int64_t{2}, int64_t{20}}) {
    const LoopReport report = loop.run(steps);
    REQUIRE(report.steps == steps);
    // Exactly the elements behind the last one consumed, whatever was made meanwhile.
    for (const double seen : report[number]) CHECK(seen == static_cast<double>(next++));
    CHECK(report.cursor.position == next);
    CHECK(report.elements_ahead >= 0);
    CHECK(report.elements_ahead <= kDepth);
    // Whoever asks later finds the queue full; the next launch takes what is there.
    while (loop.queue()->counters().enqueued < next + kDepth) std::this_thread::yield();
  }
  CHECK(loop.run(1).elements_ahead >= kDepth - 1);
  // What is dropped with a feeder that stops is made again behind the cursor.
  ++next;
  feeder->stop();
  feeder->open({0, next, 0});
  const LoopReport report = loop.run(3);
  for (const double seen : report[number]) CHECK(seen == static_cast<double>(next++));
}

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("what a feeder made beyond a loop's end is counted and comes first in the next launch") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    check_elements(device(name));
    DecliningBackend modest(name, "sunk_loop");
    check_elements(modest.device());
  }
}

TEST_SUITE_END();

}  // namespace keel
