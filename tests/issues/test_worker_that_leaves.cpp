// A fork that came while the only worker was leaving summoned nobody and was computed by its caller
// alone. In the suite "loop", so that ThreadSanitizer sees it.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "keel/core/base/parallel_for.h"

#include "issues/refused_threads.h"

namespace {

// Says whether another thread ran the last chunks of a fork while the first one waited for them.
bool a_worker_helps() {
  using Clock = std::chrono::steady_clock;
  std::atomic<int> done{0};
  bool helps = true;
  keel::parallel_for(8, [&](int i) {
    if (i > 0) {
      ++done;
      return;
    }
    const auto give_up = Clock::now() + std::chrono::seconds(10);
    while (done < 7 && Clock::now() < give_up) std::this_thread::yield();
    helps = done == 7;
  });
  return helps;
}

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("a fork finds a worker while the worker is leaving") {
  using Clock = std::chrono::steady_clock;
  if (keel_test::RefusedThreads::any_in_process()) {
    MESSAGE("keel test skipped: a test before this one may have lost the only worker");
    return;
  }
  const keel::ComputeThreads use(2);
  std::mt19937 random(1);
  // The worker began to look on before its caller was told that all is done, or a little later.
  const std::chrono::microseconds earliest{keel::kWorkerLooksOnUs * 4 / 5};
  bool helped = true;
  for (int round = 0; round < 2000 && helped; ++round) {
    const auto fork_at = Clock::now() + earliest + std::chrono::nanoseconds(random() % 20000);
    while (Clock::now() < fork_at) continue;
    helped = a_worker_helps();
  }
  CHECK(helped);
}

TEST_SUITE_END();
