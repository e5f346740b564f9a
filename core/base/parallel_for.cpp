// oneTBB hands small work over in about 1 us and lets its threads sleep, yielding, when none comes;
// the alternatives measured (its task_group, a pool of our own) were no quicker without spinning
// longer, which starves the thread that feeds the device.
#include "keel/core/base/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <sched.h>
#include <unistd.h>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include "keel/core/base/error.h"

// oneTBB is not built for ThreadSanitizer, so under it this file is not instrumented and says by
// hand what fork and join order. The symbols exist only where the program is built with it.
extern "C" {
__attribute__((weak)) void __tsan_acquire(void* address);
__attribute__((weak)) void __tsan_release(void* address);
__attribute__((weak)) void __tsan_ignore_thread_begin();
__attribute__((weak)) void __tsan_ignore_thread_end();
}

namespace keel {
namespace {

void tsan_acquire(void* address) {
  if (__tsan_acquire != nullptr) __tsan_acquire(address);
}
void tsan_release(void* address) {
  if (__tsan_release != nullptr) __tsan_release(address);
}

struct Arena {
  int threads;
  tbb::task_arena arena;
  explicit Arena(int n) : threads(n), arena(n) {}
};

// While a thread is inside oneTBB, what oneTBB itself writes there is not looked at; chunks are.
thread_local bool ignored = false;

class TsanIgnore {
 public:
  explicit TsanIgnore(bool ignore) : before_(ignored) { set(ignore); }
  ~TsanIgnore() { set(before_); }
  TsanIgnore(const TsanIgnore&) = delete;
  TsanIgnore& operator=(const TsanIgnore&) = delete;

 private:
  static void set(bool ignore) {
    if (__tsan_ignore_thread_begin == nullptr || ignored == ignore) return;
    ignored = ignore;
    if (ignore)
      __tsan_ignore_thread_begin();
    else
      __tsan_ignore_thread_end();
  }
  bool before_;
};

// Arenas are kept: a call that started in one may still run when the number changes.
class Arenas {
 public:
  Arenas() { use(std::clamp(tbb::info::default_concurrency(), 1, kMaxComputeThreads)); }
  Arena& current() noexcept { return *current_.load(std::memory_order_acquire); }
  void use(int threads) {
    const std::lock_guard<std::mutex> lock(mutex_);
    allow(threads);
    auto& arena = arenas_[threads];
    if (arena == nullptr) arena = std::make_unique<Arena>(threads);
    current_.store(arena.get(), std::memory_order_release);
  }

 private:
  // More threads than processors must be asked for, or oneTBB prints a warning and gives fewer.
  void allow(int threads) {
    if (threads <= allowed_) return;
    limit_ = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                   static_cast<size_t>(threads));
    allowed_ = threads;
  }

  std::mutex mutex_;
  int allowed_ = tbb::info::default_concurrency();
  std::unique_ptr<tbb::global_control> limit_;
  std::map<int, std::unique_ptr<Arena>> arenas_;
  std::atomic<Arena*> current_{nullptr};
};

Arenas& arenas() {
  static auto* instance =
      new Arenas();  // leaked: threads may still work when static objects are destroyed
  return *instance;
}

// The processors that the process may use.
const cpu_set_t& all_processors() {
  static const cpu_set_t set = [] {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(getpid(), sizeof(allowed), &allowed);
    return allowed;
  }();
  return set;
}

// A system that wakes a thread where its waker runs, and is slow to spread threads, leaves both on
// one processor for seconds: then two threads are no faster than one. A worker that finds itself
// there keeps off the caller's processor, as long as that stays where it is, and may use all
// others.
void keep_off(int processor) {
  cpu_set_t others = all_processors();
  CPU_CLR(static_cast<size_t>(processor), &others);
  if (CPU_COUNT(&others) > 0) sched_setaffinity(0, sizeof(others), &others);
}

thread_local bool inside_chunk = false;

// Marks this thread as running a chunk, so that calls from inside it stay on it.
class ChunkScope {
 public:
  ChunkScope() { inside_chunk = true; }
  ~ChunkScope() { inside_chunk = false; }
  ChunkScope(const ChunkScope&) = delete;
  ChunkScope& operator=(const ChunkScope&) = delete;
};

// The chunks of one call, as the threads work on them.
class Fork {
 public:
  Fork(int n, FunctionRef<void(int)> chunk) : chunk_(chunk), failed_(n) {}

  void run(int index) {
    if (&inside_chunk != caller_ && sched_getcpu() == processor_) keep_off(processor_);
    // A chunk is skipped only for the failure of a lower one, so the lowest that throws always
    // runs.
    if (index > failed_.load(std::memory_order_relaxed)) return;
    const ChunkScope scope;
    try {
      chunk_(index);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (index < failed_.load(std::memory_order_relaxed)) {
        failed_.store(index, std::memory_order_relaxed);
        exception_ = std::current_exception();
      }
    }
  }
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  const bool* caller_ = &inside_chunk;  // each thread has its own
  int processor_ = sched_getcpu();      // where the caller was when it forked
  FunctionRef<void(int)> chunk_;
  std::atomic<int> failed_;  // the lowest index that threw
  std::mutex mutex_;
  std::exception_ptr exception_;
};

}  // namespace

void set_compute_threads(int n) {
  if (n < 1 || n > kMaxComputeThreads) {
    throw Error({.op = "set_compute_threads",
                 .expected = "1 to " + std::to_string(kMaxComputeThreads) + " threads",
                 .got = std::to_string(n),
                 .kind = ErrorKind::kInvalidArgument});
  }
  arenas().use(n);
}

int compute_threads() noexcept { return arenas().current().threads; }

void parallel_for(int n, FunctionRef<void(int)> chunk) {
  if (n <= 1 || inside_chunk || arenas().current().threads == 1) {
    for (int i = 0; i < n; ++i) chunk(i);
    return;
  }
  Fork fork(n, chunk);
  char forked = 0;
  char joined = 0;
  tsan_release(&forked);
  {
    const TsanIgnore ignore(true);
    arenas().current().arena.execute([&] {
      tbb::parallel_for(
          tbb::blocked_range<int>(0, n, 1),
          [&](const tbb::blocked_range<int>& range) {
            const TsanIgnore look(false);
            tsan_acquire(&forked);
            for (int i = range.begin(); i != range.end(); ++i) fork.run(i);
            tsan_release(&joined);
          },
          tbb::simple_partitioner{});
    });
  }
  tsan_acquire(&joined);
  fork.rethrow();
}

}  // namespace keel
