// SharedSum: sums of floats over ranks that share memory (shared_memory.h). The values lie in that
// memory: each rank sums its share of the elements over all ranks and writes the sums to all of
// them. Ranks wait for one another by words in the memory, and leave there which sum they are at,
// so that ranks at different sums find out before any value is used, and a vote. Has the bits of
// SocketSum. One thread; shut() from any.
#ifndef KEEL_CORE_GROUP_SHARED_SUM_H
#define KEEL_CORE_GROUP_SHARED_SUM_H

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "keel/core/base/wait_word.h"
#include "keel/core/group/shared_memory.h"
#include "keel/core/group/sum_place.h"

namespace keel {

class SharedSum {
 public:
  // All ranks make it together. `patience`: how long a wait for another rank lasts. Throws as
  // share_memory does.
  SharedSum(int rank, std::chrono::milliseconds patience, const GatherTexts& gather);

  // Makes the memory of the next reduction, on all ranks: zeros, aligned to a page; null where
  // `count` is 0. Throws as share_memory does.
  float* add_reduction(size_t count, const GatherTexts& gather);

  // Gives this rank's part of the memory back; the reduction is never run again.
  void drop_reduction(int64_t reduction) noexcept {
    reductions_[static_cast<size_t>(reduction)].memory.clear();
  }

  // Replaces each element of the reduction that `place` names by its sum over the ranks, and
  // returns the largest vote. `place.collective` counts the runs from 1. Allocates nothing. Throws
  // SumsDiffer, and Error where another rank is silent, or after shut().
  uint8_t run(const SumPlace& place, uint8_t vote);
  // Returns when, in the last run, all ranks were there.
  std::chrono::steady_clock::time_point met() const noexcept { return met_; }
  // Ends all runs of this rank, now and later.
  void shut() noexcept { shut_.store(true); }

 private:
  // A rank tells the others here. There are two entries of each kind, used in turn: a rank that is
  // ahead is in the next run at most while others still read those of this one.
  struct alignas(64) Line {
    WaitWord steps{0, WaitWord::Reach::kProcesses};  // two in each run: has come, has summed
    SumPlace places[2] = {};
    uint8_t votes[2] = {};
  };
  struct Values {
    std::vector<SharedMemory> memory;  // by rank; none where there are no elements
    size_t count = 0;
  };

  Line& line(int rank) const;
  void wait_for_all(uint32_t step) const;
  void wait_for(int other, uint32_t step) const;
  void sum_share(const Values& values) const;

  const int rank_;
  const std::chrono::milliseconds patience_;
  std::atomic<bool> shut_{false};
  std::vector<SharedMemory> lines_;  // by rank
  std::vector<Values> reductions_;
  std::chrono::steady_clock::time_point met_ = {};
};

}  // namespace keel

#endif  // KEEL_CORE_GROUP_SHARED_SUM_H
