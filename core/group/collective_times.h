// CollectiveTimes: how long the ranks of a group have waited for one another in their reductions. A
// rank measures its own waits. It hears of the others' with the votes of a loop
// (group_agreement.h), so that knowing them costs no collective. The rank that waits least is the
// one that the others wait for. A group owns one. The thread that reduces writes, any thread reads.
#ifndef KEEL_CORE_GROUP_COLLECTIVE_TIMES_H
#define KEEL_CORE_GROUP_COLLECTIVE_TIMES_H

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "keel/core/base/export.h"

namespace keel {

// A reduction of this rank: it began, had all ranks there, and ended at these times.
struct CollectiveSpan {
  using Clock = std::chrono::steady_clock;
  int64_t step = 0;
  std::array<char, 32> name = {};  // its first characters, and zeros
  Clock::time_point begin = {}, met = {}, end = {};
};

// How long each rank has waited in all, as all of them said in one vote.
struct VotedWaits {
  int64_t votes = 0;  // up to this one; 0: there was none, and nothing is known
  CollectiveSpan::Clock::time_point at = {};
  std::vector<int64_t> waited_ns = {};  // by rank
};

class KEEL_API CollectiveTimes {
 public:
  using Clock = CollectiveSpan::Clock;

  CollectiveTimes(int rank, int size);

  // Allocates nothing.
  void add(std::string_view name, int64_t step, Clock::time_point begin, Clock::time_point met,
           Clock::time_point end) noexcept;

  // Keeps the reductions of these steps from now on, at most `most` of them. Called before they
  // run; recorded() once they have ended.
  void record(int64_t first_step, int64_t last_step, size_t most);
  const std::vector<CollectiveSpan>& recorded() const noexcept { return recorded_; }
  // Returns how many of these steps there was no room for.
  size_t dropped() const noexcept { return dropped_; }

  int size() const noexcept { return static_cast<int>(waited_ns_.size()); }
  // Returns how long a rank has waited in all: this one up to its last reduction, the others up to
  // the last vote.
  int64_t waited_ns(int rank) const noexcept {
    return waited_ns_[static_cast<size_t>(rank)].load(std::memory_order_relaxed);
  }
  // Returns what all ranks had waited when they voted last: of these waits, unlike of those above,
  // each is up to the same moment.
  VotedWaits voted_waits() const;
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
  int64_t first_step_ = 0, last_step_ = -1;  // that are recorded
  std::vector<CollectiveSpan> recorded_;
  size_t most_recorded_ = 0;
  size_t dropped_ = 0;
  mutable std::mutex mutex_;
  VotedWaits voted_;
};

}  // namespace keel

#endif  // KEEL_CORE_GROUP_COLLECTIVE_TIMES_H
