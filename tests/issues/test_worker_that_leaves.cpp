// A fork that came while the only worker was leaving summoned nobody and was computed by its caller
// alone.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "keel/core/base/parallel_for.h"

TEST_SUITE_BEGIN("issues");

TEST_CASE("a fork finds a worker while the worker is leaving") {
  using Clock = std::chrono::steady_clock;
  const keel::ComputeThreads use(2);
  std::mt19937 random(1);
  int alone = 0;
  for (int round = 0; round < 5000 && alone == 0; ++round) {
    // Workers look on for 5 us.
    const auto fork_at = Clock::now() + std::chrono::nanoseconds(random() % 12000);
    while (Clock::now() < fork_at) continue;
    std::atomic<int> done{0};
    keel::parallel_for(8, [&](int i) {
      if (i > 0) {
        ++done;
        return;
      }
      // Only another thread can run the others meanwhile.
      const auto give_up = Clock::now() + std::chrono::seconds(10);
      while (done < 7 && Clock::now() < give_up) std::this_thread::yield();
      if (done < 7) ++alone;
    });
  }
  CHECK(alone == 0);
}

TEST_SUITE_END();
