// A pool's thread that woke late took a part of the next run by the ticket of the last one, where
// the next one had more parts: a part was done twice, another one not, or the reader waited for
// ever. It took a million runs and more, so this test saw it now and then only.
#include <atomic>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/pipeline/thread_pool.h"

TEST_SUITE_BEGIN("issues");

TEST_CASE("a pool does each part once in runs of changing lengths") {
  constexpr uint32_t kMostParts = 16;
  keel::ThreadPool pool(4);
  std::vector<std::atomic<int>> runs(kMostParts);
  int wrong = 0;
  for (int i = 0; i < 300000; ++i) {
    const uint32_t parts = i % 2 == 0 ? 2 : kMostParts;
    for (auto& count : runs) count.store(0, std::memory_order_relaxed);
    pool.run(parts, [&](uint32_t part) { runs[part].fetch_add(1, std::memory_order_relaxed); });
    for (uint32_t part = 0; part < kMostParts; ++part)
      wrong += runs[part].load(std::memory_order_relaxed) != (part < parts ? 1 : 0);
  }
  CHECK(wrong == 0);
}

TEST_SUITE_END();
