#include "keel/core/base/wait_word.h"

#include <climits>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <linux/futex.h>
#include <sys/syscall.h>

namespace keel {
namespace {

using Clock =
    std::chrono::steady_clock;  // CLOCK_MONOTONIC, the clock that FUTEX_WAIT_BITSET counts on

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              std::atomic<uint32_t>::is_always_lock_free);

void pause_processor() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

uint32_t* futex_address(const std::atomic<uint32_t>& word) noexcept {
  return reinterpret_cast<uint32_t*>(const_cast<std::atomic<uint32_t>*>(&word));
}

int futex_call(int operation, WaitWord::Reach reach) noexcept {
  return reach == WaitWord::Reach::kThreads ? operation | FUTEX_PRIVATE_FLAG : operation;
}

// Sleeps while the word is `value`, until woken or `deadline` (none: null). May return early.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t value, const timespec* deadline,
                WaitWord::Reach reach) noexcept {
  syscall(SYS_futex, futex_address(word), futex_call(FUTEX_WAIT_BITSET, reach), value, deadline,
          nullptr, FUTEX_BITSET_MATCH_ANY);
}

timespec to_timespec(Clock::time_point point) noexcept {
  const auto since = point.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds);
  timespec result{};
  result.tv_sec = static_cast<time_t>(seconds.count());
  result.tv_nsec = static_cast<long>(rest.count());
  return result;
}

}  // namespace

void WaitWord::store(uint32_t value) noexcept {
  word_.store(value, std::memory_order_seq_cst);
  wake();
}

uint32_t WaitWord::bump() noexcept {
  const uint32_t value = word_.fetch_add(1, std::memory_order_seq_cst) + 1;
  wake();
  return value;
}

// The word was changed before sleepers_ is read here, and a sleeper counts itself before the kernel
// reads the word: so either it is counted and woken, or the kernel sees the new word and does not
// let it sleep.
void WaitWord::wake() noexcept {
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, futex_address(word_), futex_call(FUTEX_WAKE, reach_), INT_MAX, nullptr,
          nullptr, 0);
}

bool WaitWord::wait_while(uint32_t value, std::chrono::nanoseconds timeout,
                          std::chrono::nanoseconds spin) const noexcept {
  if (load() != value) return true;
  const auto start = Clock::now();
  const bool forever = timeout > kAsGoodAsForever;
  const auto spin_end = start + (spin < timeout ? spin : timeout);
  for (auto now = start; now < spin_end; now = Clock::now()) {
    if (now - start > kSpin) sched_yield();
    for (int i = 0; i < 8; ++i) {
      if (load() != value) return true;
      pause_processor();
    }
  }
  const auto deadline = forever ? Clock::time_point::max() : start + timeout;
  const timespec limit = to_timespec(deadline);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bool changed = load() != value;
  while (!changed && (forever || Clock::now() < deadline)) {
    futex_wait(word_, value, forever ? nullptr : &limit, reach_);
    changed = load() != value;
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return changed;
}

}  // namespace keel
