// A step whose inner while never ended ignored every request to stop.
#include <thread>

#include <doctest/doctest.h>

#include "keel/graph/runtime/trainer.h"
#include "keel/keel.h"

#include "support/declining_backend.h"
#include "unit/runtime_for_tests.h"

namespace keel {
namespace {

using keel_test::DecliningBackend;
using testing::contains;
using testing::error_of;
using testing::NumberFeeder;

// Each element says how many turns the step's loop takes; a negative number: turns without end.
struct Turning {
  explicit Turning(bool nested) {
    const auto on = [](const Values& v) { return not_equal(v[0], v[1]); };
    const auto turn = [](const Values& v) { return Values{v[0] + 1.0f, v[1]}; };
    const auto outer = [&](const Values& v) {
      const Values inner = while_loop({v[0], v[0] + 1.0f}, on, turn);
      return Values{inner[0], v[1]};
    };
    const Value before = early * 2.0f;
    const Value zero = turns * 0.0f;
    const Value counted =
        nested ? while_loop({zero, turns}, on, outer)[0] : while_loop({zero, turns}, on, turn)[0];
    total = sum_ + counted;
    update = Update{{{early, before}, {sum_, total}}};
  }
  Graph graph;
  Value turns = graph.input("turns", f32, {});
  Value early = graph.state("early", from_tensor(Tensor::scalar<float>(1)));
  Value sum_ = graph.state("sum", from_tensor(Tensor::scalar<float>(0)));
  Value total;
  Update update;
};

// Three elements of 5 turns, one without end, and then 7 turns.
std::shared_ptr<NumberFeeder> turns(const Device& on, std::atomic<bool>* ends) {
  auto feeder = std::make_shared<NumberFeeder>(
      on, ElementSpec{{{"turns", {f32, {}}}}},
      [ends](int64_t i, const std::vector<void*>& fields) {
        *static_cast<float*>(fields[0]) = i < 3 ? 5.0f : i == 3 && !*ends ? -1.0f : 7.0f;
        return true;
      },
      DeviceQueueOptions{.depth = 2});
  feeder->open({});
  return feeder;
}

// Calls `stop` as soon as the loop is in its fourth step.
template <class Stop>
std::thread stop_in_step(const Loop& loop, Stop stop) {
  return std::thread([queue = loop.queue(), stop] {
    while (queue->counters().dequeued < 4) std::this_thread::yield();
    stop();
  });
}

void check_stop(const Device& on, bool nested, bool by_session) {
  Turning m(nested);
  Session session(m.graph, on);
  std::atomic<bool> ends{false};
  Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = turns(on, &ends)});
  std::thread stopper = stop_in_step(loop, [&] {
    if (by_session)
      session.request_stop();
    else
      loop.request_stop();
  });
  const LoopReport report = loop.run(100);
  stopper.join();
  CHECK(report.steps == 3);
  CHECK(report.cancelled);
  CHECK(report.step_given_up);
  CHECK(!report.failed);
  CHECK(report.cursor.position == 3);
  CHECK(report[m.total].size() == 3);
  // The states are what step 3 left.
  CHECK(session.step() == 3);
  CHECK(session.read(m.early).item<float>() == 8);
  CHECK(session.read(m.sum_).item<float>() == 15);
  // The element of the step that was given up is the next one again, and no request is left over.
  std::thread again = stop_in_step(loop, [&] { loop.request_stop(); });
  const LoopReport second = loop.run(100);
  again.join();
  CHECK(second.steps == 0);
  CHECK(second.step_given_up);
  CHECK(session.step() == 3);
  const QueueCounters counters = loop.queue()->counters();
  CHECK(counters.dequeued == 3);
  CHECK(counters.released == 3);
}

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("a stop ends a step whose inner loop never ends") {
  for (const std::string& name : backend_names()) {
    for (const bool nested : {false, true}) {
      for (const bool by_session : {false, true}) {
        CAPTURE(name);
        CAPTURE(nested);
        CAPTURE(by_session);
        check_stop(device(name), nested, by_session);
        DecliningBackend modest(name, "sunk_loop");
        check_stop(modest.device(), nested, by_session);
      }
    }
  }
}

TEST_CASE("a training that is cancelled inside a step goes on with the same element") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const Device on = device(name);
    Turning m(false);
    Session session(m.graph, on);
    std::atomic<bool> ends{false};
    auto feeder = turns(on, &ends);
    Trainer trainer(session, {.update = m.update, .fetches = {m.total}, .source = feeder});
    std::thread stopper = stop_in_step(trainer.loop(), [&] { trainer.cancel(); });
    const TrainReport report = trainer.fit({.steps = 10, .loop_size = 5});
    stopper.join();
    CHECK(report.cancelled);
    CHECK(report.steps == 3);
    CHECK(trainer.cursor().position == 3);
    // The data are mended and opened where the training was.
    ends = true;
    CHECK(trainer.fit({.steps = 2, .resume_from = trainer.cursor()}).steps == 2);
    CHECK(session.step() == 5);
    CHECK(session.read(m.sum_).item<float>() == 29);
    CHECK(session.read(m.early).item<float>() == 32);
  }
}

TEST_CASE("a stop ends a single step in its inner loop and leaves the states") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Turning m(false);
    Session session(m.graph, device(name));
    const auto step = [&](float count) {
      return session.run(m.update, {m.total}, {{m.turns, Tensor::scalar<float>(count)}});
    };
    CHECK(step(5)[0].item<float>() == 5);
    std::atomic<bool> running{false};
    std::thread stopper([&] {
      while (!running) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      session.request_stop();
    });
    running = true;
    const std::string error = error_of([&] { step(-1); });
    stopper.join();
    CHECK(contains(error, "stopped by request_stop()"));
    CHECK(contains(error, "test_stop_inside_a_step.cpp:"));
    CHECK(session.step() == 1);
    CHECK(session.read(m.early).item<float>() == 2);
    CHECK(session.read(m.sum_).item<float>() == 5);
    // It was obeyed once; a request that comes before a step ends that one before it begins.
    CHECK(step(2)[0].item<float>() == 7);
    session.request_stop();
    CHECK(contains(error_of([&] { step(1); }), "before the step was done"));
    CHECK(step(1)[0].item<float>() == 8);
    CHECK(session.step() == 3);
  }
}

TEST_SUITE_END();

}  // namespace keel
