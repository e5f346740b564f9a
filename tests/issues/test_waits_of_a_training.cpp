// The times for which a training waits for data and its callbacks: nothing saw whether they are
// measured at all.
#include <chrono>
#include <memory>
#include <span>
#include <thread>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/trainer.h"

#include "unit/runtime_for_tests.h"

TEST_SUITE_BEGIN("issues");

namespace {

using namespace keel;
using namespace keel::testing;

constexpr int64_t kWaitingSteps = 20;
constexpr std::chrono::milliseconds kSleep{3};

TrainReport train_slowly(const char* backend, bool slow_feed, bool slow_callback) {
  HalvingModel model;
  Session session(model.graph, device(backend));
  auto feeder = std::make_shared<NumberFeeder>(session.device(), halving_element(),
                                               [=](int64_t, const std::vector<void*>& fields) {
                                                 if (slow_feed) std::this_thread::sleep_for(kSleep);
                                                 auto* x = static_cast<float*>(fields[0]);
                                                 x[0] = x[1] = 1;
                                                 return true;
                                               });
  feeder->open({});
  Trainer trainer(session, {.update = model.update, .fetches = {model.total}, .source = feeder});
  TrainOptions options{.steps = kWaitingSteps, .loop_size = 5};
  options.on_step = [=](int64_t, std::span<const double>) {
    if (slow_callback) std::this_thread::sleep_for(kSleep);
  };
  return trainer.fit(options);
}

}  // namespace

TEST_CASE("a training whose feed sleeps has waited for it") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    // All sleeps come to 60 ms, and a step takes some microseconds.
    CHECK(train_slowly(backend, true, false).queue_wait_ns >= 20'000'000);
  }
}

TEST_CASE("a training whose callback sleeps has been in it") {
  const int64_t sleeps = kWaitingSteps * std::chrono::nanoseconds(kSleep).count();
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const TrainReport report = train_slowly(backend, false, true);
    CHECK(report.callback_ns >= sleeps);
    CHECK(report.callback_ns <= static_cast<int64_t>(report.seconds * 1e9));
  }
}

TEST_SUITE_END();
