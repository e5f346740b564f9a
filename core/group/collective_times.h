// CollectiveTimes: how long the ranks of a group have waited for one another in their reductions. A
// rank measures its own waits. It hears of the others' with the votes of a loop
// (group_agreement.h), so that knowing them costs no collective. The rank that waits least is the
// one that the others wait for. A group owns one. The thread that reduces writes, any thread reads.
#ifndef KEEL_CORE_GROUP_COLLECTIVE_TIMES_H
#define KEEL_CORE_GROUP_COLLECTIVE_TIMES_H

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "keel/core/base/export.h"

namespace keel {

class KEEL_API CollectiveTimes {
 public:
  using Clock = std::chrono::steady_clock;

  CollectiveTimes(int rank, int size);

  // A reduction of this rank began, had all ranks there, and ended at these times.
  void add(Clock::time_point begin, Clock::time_point met, Clock::time_point end) noexcept;

  int size() const noexcept { return static_cast<int>(waited_ns_.size()); }
  // Returns how long a rank has waited in all: this one up to its last reduction, the others up to
  // the last vote.
  int64_t waited_ns(int rank) const noexcept {
    return waited_ns_[static_cast<size_t>(rank)].load(std::memory_order_relaxed);
  }
  // Returns how long this rank's reductions took once all ranks were there.
  int64_t summed_ns() const noexcept { return summed_ns_.load(std::memory_order_relaxed); }

  // Fills size() elements whose sums over the ranks go to `take`: zeros, and in this rank's place
  // the seconds that it has waited since the last call.
  void give(float* seconds) noexcept;
  void take(const float* seconds) noexcept;

 private:
  size_t rank_;
  std::vector<std::atomic<int64_t>> waited_ns_;  // by rank
  std::atomic<int64_t> summed_ns_{0};
  int64_t given_ns_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_GROUP_COLLECTIVE_TIMES_H
