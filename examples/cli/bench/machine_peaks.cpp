#include "cli/bench/machine_peaks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include <keel/backends/common/vector/host_isa.h>
#include <keel/core/base/error.h>
#include <keel/core/base/thread.h>

#include "cli/bench/machine_limits.h"

namespace keel_cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kCacheLine = 64;
constexpr size_t kPastCaches = size_t{16} << 20;  // bytes from where on stores pass the caches by

// Seconds from the start of all threads to the end of the last.
double seconds_on(int threads, const std::function<void(int)>& run) {
  if (threads == 1) {
    const auto start = Clock::now();
    run(0);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> workers;
  std::atomic<bool> abandoned{false};
  workers.reserve(static_cast<size_t>(threads));
  try {
    for (int i = 0; i < threads; ++i) {
      workers.push_back(keel::start_thread("a measuring thread", [&, i] {
        ready.fetch_add(1);
        while (!go.load()) std::this_thread::yield();
        if (!abandoned.load()) run(i);
      }));
    }
  } catch (const keel::Error&) {
    abandoned.store(true);
    go.store(true);
    for (std::thread& thread : workers) thread.join();
    throw;
  }
  while (ready.load() < threads) std::this_thread::yield();
  const auto start = Clock::now();
  go.store(true);
  for (std::thread& thread : workers) thread.join();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A Turn: `once` on every thread as often as fits; `work` done by all threads in one round of it.
Turn rate_of(int threads, std::function<double(int)> once) {
  return [=](double seconds) {
    const auto begin = Clock::now();
    double work = once(0);
    const double probe = std::chrono::duration<double>(Clock::now() - begin).count();
    const int64_t turns = std::max<int64_t>(1, std::llround(seconds / std::max(1e-9, probe)));
    work *= static_cast<double>(turns) * threads;
    return work / seconds_on(threads, [&](int thread) {
             for (int64_t i = 0; i < turns; ++i) once(thread);
           });
  };
}

// Seconds that two threads take to write a number in turns, each `count` times.
double seconds_of_turns(int64_t count) {
  constexpr int kSpins = 4096;  // then the other one may need this processor
  alignas(2 * kCacheLine) std::atomic<int64_t> next{0};
  return seconds_on(2, [&](int thread) {
    for (int64_t own = thread; own < 2 * count; own += 2) {
      for (int spin = 1; next.load(std::memory_order_acquire) != own; ++spin)
        if (spin % kSpins == 0) std::this_thread::yield();
      next.store(own + 1, std::memory_order_release);
    }
  });
}

struct Release {
  void operator()(float* at) const { std::free(at); }
};
using Floats = std::unique_ptr<float[], Release>;

Floats make_floats(size_t n) {
  auto* at = static_cast<float*>(std::aligned_alloc(kCacheLine, n * sizeof(float)));
  if (at == nullptr) throw std::bad_alloc();
  std::fill(at, at + n, 0.5f);
  return Floats(at);
}

}  // namespace

const char* name_of(Traffic traffic) noexcept {
  static constexpr const char* kNames[] = {"read", "copy", "triad"};
  return kNames[static_cast<size_t>(traffic)];
}

std::optional<Turn> compute_peak(keel::DType dtype, int threads) {
  if (dtype == keel::f16 && has_f16_arithmetic()) return std::nullopt;
  if (dtype == keel::bf16 && keel::vector::amx_status().available)
    return rate_of(threads, [](int) { return run_bf16_tiles(); });
  if (dtype == keel::bf16 && run_bf16_chains() > 0)
    return rate_of(threads, [](int) { return run_bf16_chains(); });
  if (run_fma_chains() == 0) return std::nullopt;
  return rate_of(threads, [](int) { return run_fma_chains(); });
}

Turn hand_overs() {
  return [](double seconds) {
    // Where the threads share a busy processor, a turn may take milliseconds.
    int64_t count = 1;
    double took = seconds_of_turns(count);
    while (took < seconds / 4) {
      count *= 2;
      took = seconds_of_turns(count);
    }
    return 2.0 * static_cast<double>(count) / took;
  };
}

Turn bandwidth(Traffic traffic, size_t bytes, int threads) {
  const size_t arrays = traffic == Traffic::kRead ? 1 : traffic == Traffic::kCopy ? 2 : 4;
  const size_t share = bytes / sizeof(float) / arrays / static_cast<size_t>(threads);
  const size_t n = std::max<size_t>(kCacheLine, share / kCacheLine * kCacheLine);
  const bool past_caches = bytes >= kPastCaches;
  auto memory = std::make_shared<std::vector<Floats>>();
  for (size_t i = 0; i < arrays * static_cast<size_t>(threads); ++i)
    memory->push_back(make_floats(n));
  return rate_of(threads, [=](int thread) {
    const auto at = [&](size_t i) {
      return (*memory)[static_cast<size_t>(thread) * arrays + i].get();
    };
    switch (traffic) {
      case Traffic::kRead: {
        const volatile float sum = read_floats(at(0), n);
        static_cast<void>(sum);
        break;
      }
      case Traffic::kCopy:
        copy_floats(at(0), at(1), n, past_caches);
        break;
      case Traffic::kTriad:
        triad(at(0), at(1), at(2), at(3), n, past_caches);
        break;
    }
    return static_cast<double>(n * arrays * sizeof(float));
  });
}

}  // namespace keel_cli
