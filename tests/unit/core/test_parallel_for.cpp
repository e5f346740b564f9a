// parallel_for and what it borrows. In the suite "loop", so that ThreadSanitizer sees it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/core/base/parallel_for.h"

namespace {

using keel::ComputeThreads;
using keel::FunctionRef;
using keel::parallel_for;

int doubled(int x) { return 2 * x; }

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("every chunk runs exactly once whatever the number of threads") {
  for (const int threads : {1, 2, 3, 8}) {
    const ComputeThreads use(threads);
    CHECK(keel::compute_threads() == threads);
    for (const int n : {0, 1, 2, 7, 1000}) {
      std::vector<int> runs(static_cast<size_t>(n), 0);  // plain: each chunk has its own element
      parallel_for(n, [&](int i) { ++runs[static_cast<size_t>(i)]; });
      CHECK(std::all_of(runs.begin(), runs.end(), [](int r) { return r == 1; }));
    }
    parallel_for(-3, [](int) { FAIL("no chunk may run"); });
  }
}

TEST_CASE("one thread runs the chunks in order in the caller") {
  const ComputeThreads use(1);
  std::vector<int> order;
  const auto caller = std::this_thread::get_id();
  parallel_for(5, [&](int i) {
    order.push_back(i);
    CHECK(std::this_thread::get_id() == caller);
  });
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
}

// So that a thread finds in its caches what it wrote in the fork before.
TEST_CASE("the caller takes chunks from the first on and others from the last") {
  const auto caller = std::this_thread::get_id();
  for (const int threads : {2, 4}) {
    const ComputeThreads use(threads);
    int with_help = 0;
    for (int round = 0; round < 300; ++round) {
      constexpr int kChunks = 40;
      std::vector<std::thread::id> by(kChunks);
      parallel_for(kChunks, [&](int i) {
        by[static_cast<size_t>(i)] = std::this_thread::get_id();
        const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(2);
        while (std::chrono::steady_clock::now() < until) continue;
      });
      const auto mine = std::count(by.begin(), by.end(), caller);
      // The caller's chunks are the first ones, so nobody else has one below them.
      CHECK(std::all_of(by.begin(), by.begin() + mine,
                        [&](std::thread::id id) { return id == caller; }));
      with_help += mine < kChunks;
    }
    WARN(with_help > 0);
  }
}

TEST_CASE("more chunks than a fork counts are run in groups") {
  const ComputeThreads use(2);
  constexpr int kChunks = (1 << 20) + 7;
  std::vector<uint8_t> runs(kChunks, 0);
  parallel_for(kChunks, [&](int i) { ++runs[static_cast<size_t>(i)]; });
  CHECK(std::all_of(runs.begin(), runs.end(), [](int r) { return r == 1; }));
}

TEST_CASE("what chunks write is visible after parallel_for") {
  const ComputeThreads use(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> values(64, round);
    parallel_for(64, [&](int i) { values[static_cast<size_t>(i)] += i; });
    CHECK(std::accumulate(values.begin(), values.end(), 0) == 64 * round + 2016);
  }
}

TEST_CASE("the exception of the lowest chunk comes back") {
  for (const int threads : {1, 2, 4}) {
    const ComputeThreads use(threads);
    for (int round = 0; round < 9; ++round) {
      std::atomic<int> below{0};
      std::string caught;
      try {
        parallel_for(100, [&](int i) {
          if (i % 10 == 7) throw std::runtime_error("chunk " + std::to_string(i));
          if (i < 7) ++below;
        });
      } catch (const std::runtime_error& error) {
        caught = error.what();
      }
      CHECK(caught == "chunk 7");
      CHECK(below == 7);
    }
    std::atomic<int> runs{0};
    parallel_for(10, [&](int) { ++runs; });
    CHECK(runs == 10);  // the threads work on
  }
}

TEST_CASE("a parallel_for inside a chunk runs there in order") {
  const ComputeThreads use(2);
  std::vector<std::vector<int>> order(8);
  std::vector<int> moved(8, 0);
  parallel_for(8, [&](int i) {
    const auto thread = std::this_thread::get_id();
    parallel_for(8, [&](int j) {
      order[static_cast<size_t>(i)].push_back(j);
      if (std::this_thread::get_id() != thread) moved[static_cast<size_t>(i)] = 1;
    });
  });
  for (const auto& inner : order) CHECK(inner == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(std::accumulate(moved.begin(), moved.end(), 0) == 0);
}

TEST_CASE("after a chunk that threw the same thread may fork again") {
  const ComputeThreads use(2);
  CHECK_THROWS(parallel_for(2, [](int) { throw std::runtime_error("x"); }));
  CHECK_THROWS(parallel_for(1, [](int) { throw std::runtime_error("x"); }));
  std::vector<int> runs(100, 0);
  parallel_for(100, [&](int i) { runs[static_cast<size_t>(i)] = 1; });
  CHECK(std::accumulate(runs.begin(), runs.end(), 0) == 100);
}

TEST_CASE("threads may fork at once with numbers of threads of their own") {
  const ComputeThreads use(2);
  std::atomic<bool> wrong{false};
  const auto work = [&] {
    for (int round = 0; round < 200; ++round) {
      std::vector<int> values(16, 0);
      parallel_for(16, [&](int i) { values[static_cast<size_t>(i)] = i; });
      if (std::accumulate(values.begin(), values.end(), 0) != 120) wrong = true;
    }
  };
  std::thread first(work);
  std::thread second(work);
  for (int round = 0; round < 9; ++round) {
    const ComputeThreads own(round % 3 + 1);
    work();
  }
  first.join();
  second.join();
  CHECK_FALSE(wrong);
}

TEST_CASE("many threads may fork at once and all come back") {
  const ComputeThreads use(3);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 20; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 100; ++round) {
        std::vector<int> values(5, 0);
        parallel_for(5, [&](int i) { values[static_cast<size_t>(i)] = caller + i; });
        if (std::accumulate(values.begin(), values.end(), 0) != 5 * caller + 10) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("chunks of very different length are shared") {
  const ComputeThreads use(2);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> done{0};
    parallel_for(40, [&](int i) {
      if (i == 0) {  // ends only when another thread has run all others
        while (done < 39) std::this_thread::yield();
      } else {
        ++done;
      }
    });
    CHECK(done == 39);
  }
}

TEST_CASE("a caller sleeps until a chunk that takes long is done") {
  const ComputeThreads use(2);
  for (int round = 0; round < 5; ++round) {
    std::vector<int> done(2, 0);
    parallel_for(2, [&](int i) {
      if (i == round % 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      done[static_cast<size_t>(i)] = 1;
    });
    CHECK(done == std::vector<int>{1, 1});
  }
}

TEST_CASE("a number of threads that makes no sense is refused") {
  const int before = keel::compute_threads();
  CHECK(before >= 1);
  for (const int n : {0, -1, 1025, INT32_MAX, INT32_MIN})
    CHECK_THROWS_AS(keel::ComputeThreads{n}, keel::Error);
  CHECK(keel::compute_threads() == before);
}

TEST_CASE("scopes of compute threads nest and are of their own thread") {
  const int all = keel::compute_threads();
  {
    const ComputeThreads outer(3);
    {
      const ComputeThreads inner(2);
      const ComputeThreads same(2);
      CHECK(keel::compute_threads() == 2);
      std::thread([all] { CHECK(keel::compute_threads() == all); }).join();
    }
    CHECK(keel::compute_threads() == 3);
  }
  CHECK(keel::compute_threads() == all);
}

TEST_CASE("a function reference calls lambdas and functions and copies cheaply") {
  int sum = 0;
  const auto add = [&sum](int x) { return sum += x; };
  const FunctionRef<int(int)> ref = add;
  const FunctionRef<int(int)> copy = ref;
  CHECK(ref(2) == 2);
  CHECK(copy(3) == 5);
  int (*pointer)(int) = doubled;
  CHECK(FunctionRef<int(int)>(pointer)(4) == 8);
  struct Counter {
    int n = 0;
    void operator()() { ++n; }
  } counter;
  const FunctionRef<void()> count = counter;
  count();
  count();
  CHECK(counter.n == 2);
  std::string text = "a";
  const auto append = [](std::string& to, const std::string& what) { to += what; };
  const FunctionRef<void(std::string&, const std::string&)> by_reference = append;
  by_reference(text, "b");
  CHECK(text == "ab");
}

TEST_CASE("forks leave the caller its processors and keep workers within the process") {
  const auto allowed = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    REQUIRE(sched_getaffinity(0, sizeof(set), &set) == 0);
    return set;
  };
  const cpu_set_t before = allowed();
  const ComputeThreads four(4);
  std::atomic<int> outside{0};
  for (int round = 0; round < 200; ++round) {
    parallel_for(8, [&](int) {
      cpu_set_t mine, both;
      CPU_ZERO(&mine);
      sched_getaffinity(0, sizeof(mine), &mine);
      CPU_AND(&both, &mine, &before);
      if (CPU_COUNT(&mine) == 0 || !CPU_EQUAL(&both, &mine)) ++outside;
    });
  }
  CHECK(outside == 0);
  const cpu_set_t after = allowed();
  CHECK(CPU_EQUAL(&after, &before));
}

TEST_SUITE_END();
