// WaitWord: a 32-bit word that threads can wait on: a few microseconds of spinning, then sleep in
// the kernel (futex). Owned by whoever synchronises through it (queues, the device thread); one
// with Reach::kProcesses may lie in memory that several processes map. Any thread may call
// anything.
//
// The pattern for a condition of any kind: v = word.load(); check the condition;
// word.wait_while(v); again. Whoever makes the condition true calls bump() afterwards. A 32-bit
// count wraps only after 2^32 bumps during one wait.
#ifndef KEEL_CORE_BASE_WAIT_WORD_H
#define KEEL_CORE_BASE_WAIT_WORD_H

#include <atomic>
#include <chrono>
#include <cstdint>

#include "keel/core/base/export.h"

namespace keel {

class KEEL_API WaitWord {
 public:
  static constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();
  // A century: longer timeouts are as good as none, and would overflow the clock.
  static constexpr std::chrono::hours kAsGoodAsForever{24 * 365 * 100};
  // Long enough to meet a thread that is about to answer, short enough not to starve the one that
  // produces.
  static constexpr std::chrono::nanoseconds kSpin{2000};

  // Who can wait for it: threads of one process, or of all that map its memory.
  enum class Reach : uint32_t { kThreads, kProcesses };

  explicit WaitWord(uint32_t value = 0, Reach reach = Reach::kThreads) noexcept
      : word_(value), reach_(reach) {}
  WaitWord(const WaitWord&) = delete;
  WaitWord& operator=(const WaitWord&) = delete;

  // Writes made before the store or bump whose value this sees are visible after it.
  uint32_t load() const noexcept { return word_.load(std::memory_order_acquire); }
  // Sets the word and wakes all who wait.
  void store(uint32_t value) noexcept;
  // Adds one, wakes all who wait, returns the new value.
  uint32_t bump() noexcept;

  // Waits until the word is not `value`: true as soon as it differs, false when `timeout` has
  // passed first. A `spin` beyond kSpin is spent yielding the processor to others.
  bool wait_while(uint32_t value, std::chrono::nanoseconds timeout = kForever,
                  std::chrono::nanoseconds spin = kSpin) const noexcept;

 private:
  void wake() noexcept;

  std::atomic<uint32_t> word_;
  mutable std::atomic<uint32_t> sleepers_{0};
  const Reach reach_;
};

}  // namespace keel

#endif  // KEEL_CORE_BASE_WAIT_WORD_H
