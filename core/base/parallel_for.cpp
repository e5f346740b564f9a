// Forks are handed over through slots that workers watch: a worker that has nothing to do looks on
// for tens of microseconds, in which the next fork of a step comes for a cache line's way, and then
// goes back to oneTBB, which lets its threads sleep and wakes them when they are summoned again. (A
// oneTBB parallel_for by itself takes 2 us over the ideal to fork and join two chunks.)
#include "keel/core/base/parallel_for.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include "keel/core/base/error.h"
#include "keel/core/base/log.h"
#include "keel/core/base/wait_word.h"

// Debian's oneTBB is not built for ThreadSanitizer, so it cannot see the order that oneTBB keeps:
// what its headers write when a worker is summoned is not looked at. (What chunks share is ordered
// by the slots, which it sees.) The symbols exist only where the program is built with it.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): ThreadSanitizer names
// them.
extern "C" {
__attribute__((weak)) void __tsan_ignore_thread_begin();
__attribute__((weak)) void __tsan_ignore_thread_end();
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace keel {
namespace {

class TsanIgnore {
 public:
  TsanIgnore() {
    if (__tsan_ignore_thread_begin != nullptr) __tsan_ignore_thread_begin();
  }
  ~TsanIgnore() {
    if (__tsan_ignore_thread_end != nullptr) __tsan_ignore_thread_end();
  }
  TsanIgnore(const TsanIgnore&) = delete;
  TsanIgnore& operator=(const TsanIgnore&) = delete;
};

// Returns the processors that the process may use.
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

// The chunks of one call, as the threads work on them. Owned by the call, which returns only after
// the last chunk.
class Fork {
 public:
  Fork(int n, FunctionRef<void(int)> chunk) : chunk_(chunk), unfinished_(n), failed_(n) {}

  // Returns whether this was the last chunk to be done; if not, the fork may be gone.
  bool run(int index) {
    attempt(index);
    return unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  void attempt(int index) {
    if (std::this_thread::get_id() != caller_ && sched_getcpu() == processor_) keep_off(processor_);
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

  const std::thread::id caller_ = std::this_thread::get_id();
  const int processor_ = sched_getcpu();  // where the caller was when it forked
  FunctionRef<void(int)> chunk_;
  std::atomic<int> unfinished_;
  std::atomic<int> failed_;  // the lowest index that threw
  std::mutex mutex_;
  std::exception_ptr exception_;
};

// A place where one fork at a time offers its chunks. The caller takes them from the first on,
// workers from the last: so each thread has about the same part of each fork of a step, and finds
// in its own caches what it wrote in the fork before, where ranges of the same data are the chunks.
// How many there are and how many are taken at both ends are one number: who changes it from what
// it is has that chunk of the fork that is there now.
class Slot {
 public:
  enum class End { kFirst, kLast };
  static constexpr int kMostChunks = 1 << 20;

  // Takes the slot for the caller, who keeps it for as long as its fork lasts. False where another
  // has it.
  bool acquire() { return !taken_.exchange(true, std::memory_order_acquire); }
  void release() { taken_.store(false, std::memory_order_release); }

  // REQUIRES n <= kMostChunks.
  void offer(Fork& fork, int n) {
    fork_ = &fork;
    before_ = finished_.load();
    ticket_.store(static_cast<uint64_t>(n) << kCountAt, std::memory_order_seq_cst);
  }
  // Says whether there is a chunk that nobody has taken yet.
  bool offers() const { return left_in(ticket_.load(std::memory_order_seq_cst)) != 0; }
  // Runs a chunk that nobody has taken yet; whether there was one.
  bool run_one(End end) {
    const uint64_t one = uint64_t{1} << (end == End::kFirst ? kFirstAt : kLastAt);
    uint64_t ticket = ticket_.load(std::memory_order_seq_cst);
    do {
      if (left_in(ticket) == 0) return false;
    } while (!ticket_.compare_exchange_weak(ticket, ticket + one, std::memory_order_acq_rel,
                                            std::memory_order_acquire));
    const int chunk = end == End::kFirst ? field(ticket, kFirstAt)
                                         : field(ticket, kCountAt) - 1 - field(ticket, kLastAt);
    // The caller waits for each chunk that is taken, so this is still its fork.
    if (fork_->run(chunk)) finished_.bump();
    return true;
  }
  // Until the last chunk is done.
  void wait() const { finished_.wait_while(before_, WaitWord::kForever, kJoin); }

 private:
  // The fields of a ticket, each of so many bits.
  static constexpr int kFirstAt = 0, kLastAt = 21, kCountAt = 42, kFieldBits = 21;
  static int field(uint64_t ticket, int at) {
    return static_cast<int>(ticket >> at & ((uint64_t{1} << kFieldBits) - 1));
  }
  static int left_in(uint64_t ticket) {
    return field(ticket, kCountAt) - field(ticket, kFirstAt) - field(ticket, kLastAt);
  }
  // Being woken takes as long as many a chunk.
  static constexpr std::chrono::microseconds kJoin{200};

  alignas(64) std::atomic<uint64_t> ticket_{0};
  Fork* fork_ = nullptr;
  WaitWord finished_;  // counts forks
  uint32_t before_ = 0;
  std::atomic<bool> taken_{false};
};

// The threads of one number of compute threads. Workers are shared by the callers of several
// forks at a time; a caller that finds no slot, or no worker, runs its chunks alone.
class Team {
  enum class WorkerState { kAway, kPresent, kLost };

 public:
  explicit Team(int threads) : threads_(threads), workers_(static_cast<size_t>(threads - 1)) {}
  int threads() const noexcept { return threads_; }

  void run(Fork& fork, int n) {
    const auto slot =
        std::find_if(slots_.begin(), slots_.end(), [](Slot& s) { return s.acquire(); });
    if (slot == slots_.end()) {
      for (int i = 0; i < n; ++i) fork.run(i);
      return;
    }
    slot->offer(fork, n);
    forks_.bump();
    summon(std::min(n, threads_) - 1);
    while (slot->run_one(Slot::End::kFirst)) continue;
    slot->wait();
    slot->release();
  }

 private:
  static constexpr size_t kSlots = 8;
  // A worker yields the processor meanwhile, as to the thread that feeds the device.
  static constexpr std::chrono::microseconds kLooksOn{kWorkerLooksOnUs};

  // Each worker has an arena of its own. oneTBB then starts its thread in the thread that summons
  // it, where it can be caught that the system refuses. Workers of one arena start one another, and
  // what one of them throws ends the process.
  struct Worker {
    std::atomic<WorkerState> state{WorkerState::kAway};
    tbb::task_arena arena{1, 0};
  };

  // Wakes workers so that `wanted` of them look on, or all there are.
  void summon(int wanted) noexcept {
    int missing = wanted - idle_.load(std::memory_order_seq_cst);
    for (auto worker = workers_.begin(); missing > 0 && worker != workers_.end(); ++worker) {
      if (present_.load(std::memory_order_seq_cst) >= threads_ - 1) return;
      WorkerState away = WorkerState::kAway;
      if (!worker->state.compare_exchange_strong(away, WorkerState::kPresent)) continue;
      present_.fetch_add(1, std::memory_order_seq_cst);
      if (enqueue(*worker)) --missing;
    }
  }
  bool enqueue(Worker& worker) noexcept {
    const TsanIgnore ignore;
    try {
      worker.arena.enqueue([this, &worker] { work(worker); });
      return true;
    } catch (const std::exception& refused) {
      lose(worker, refused.what());
      return false;
    }
  }
  // An arena in which starting a thread failed must not be used again: oneTBB lets summonses of an
  // arena take turns, and the one that threw never ends its turn, so the next may wait for ever.
  // The worker is therefore kept in kLost, which nobody summons and which counts as present.
  void lose(Worker& worker, const char* reason) noexcept {
    if (worker.state.exchange(WorkerState::kLost) == WorkerState::kAway) present_.fetch_add(1);
    if (warned_.exchange(true)) return;
    try {
      log_warn(std::string("a compute thread cannot be started (") + reason +
               "); computing goes on with fewer");
    } catch (const std::bad_alloc&) {
      return;
    }
  }

  // Runs a worker from being summoned until nothing has come for a while.
  void work(Worker& worker) {
    do {
      serve();
    } while (!leave(worker));
  }
  void serve() {
    while (true) {
      const uint32_t seen = forks_.load();
      while (run_any()) continue;
      idle_.fetch_add(1, std::memory_order_seq_cst);
      const bool more = forks_.wait_while(seen, kLooksOn, kLooksOn);
      idle_.fetch_sub(1, std::memory_order_seq_cst);
      // A caller that still counted this worker as idle woke no other one for its chunks, so the
      // worker looks once more before it gives up.
      if (!more && !run_any()) return;
    }
  }
  // False where the worker has to come back: a caller that still found it present has summoned
  // nobody, and what it offered is seen here.
  bool leave(Worker& worker) {
    WorkerState present = WorkerState::kPresent;
    if (!worker.state.compare_exchange_strong(present, WorkerState::kAway)) return true;
    present_.fetch_sub(1, std::memory_order_seq_cst);
    const auto offers = [](const Slot& slot) { return slot.offers(); };
    if (std::none_of(slots_.begin(), slots_.end(), offers)) return true;
    // Somebody else may have summoned it anew.
    WorkerState away = WorkerState::kAway;
    if (!worker.state.compare_exchange_strong(away, WorkerState::kPresent)) return true;
    present_.fetch_add(1, std::memory_order_seq_cst);
    return false;
  }
  bool run_any() {
    return std::any_of(slots_.begin(), slots_.end(),
                       [](Slot& slot) { return slot.run_one(Slot::End::kLast); });
  }

  int threads_;
  std::array<Slot, kSlots> slots_;
  WaitWord forks_;               // counts them
  std::atomic<int> present_{0};  // workers that are not away
  std::atomic<int> idle_{0};     // of them, those that look on
  std::atomic<bool> warned_{false};
  std::vector<Worker> workers_;
};

// One team for each number of threads that was ever asked for.
class Teams {
 public:
  Teams() : all_(of(std::clamp(tbb::info::default_concurrency(), 1, kMaxComputeThreads))) {}
  Team& all() noexcept { return all_; }
  Team& of(int threads) {
    const std::lock_guard<std::mutex> lock(mutex_);
    allow(threads);
    auto& team = teams_[threads];
    if (team == nullptr) team = std::make_unique<Team>(threads);
    return *team;
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
  std::map<int, std::unique_ptr<Team>> teams_;
  Team& all_;
};

Teams& teams() {
  static auto* instance =
      new Teams();  // leaked: threads may still work when static objects are destroyed
  return *instance;
}

// This thread's ComputeThreads; null: all.
thread_local Team* team_of_thread = nullptr;

Team& current_team() noexcept {
  return team_of_thread != nullptr ? *team_of_thread : teams().all();
}

}  // namespace

ComputeThreads::ComputeThreads(int n) : outer_(team_of_thread) {
  if (n < 1 || n > kMaxComputeThreads) {
    throw Error({.op = "compute threads",
                 .expected = "1 to " + std::to_string(kMaxComputeThreads) + " threads",
                 .got = std::to_string(n),
                 .kind = ErrorKind::kInvalidArgument});
  }
  if (n != compute_threads()) team_of_thread = &teams().of(n);
}

ComputeThreads::~ComputeThreads() { team_of_thread = static_cast<Team*>(outer_); }

int compute_threads() noexcept { return current_team().threads(); }

void parallel_for(int n, FunctionRef<void(int)> chunk) {
  if (n <= 1 || inside_chunk || current_team().threads() == 1) {
    for (int i = 0; i < n; ++i) chunk(i);
    return;
  }
  if (n > Slot::kMostChunks) {
    const auto begin_of = [n](int group) {
      return static_cast<int>(static_cast<int64_t>(n) * group / Slot::kMostChunks);
    };
    return parallel_for(Slot::kMostChunks, [&](int group) {
      for (int i = begin_of(group); i < begin_of(group + 1); ++i) chunk(i);
    });
  }
  Fork fork(n, chunk);
  current_team().run(fork, n);
  fork.rethrow();
}

}  // namespace keel
