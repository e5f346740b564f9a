// SumPlace: which sum a rank is at, which travels with its values; and the errors, the limit of
// waits and the addition that sums over sockets (socket_sum.h) and in shared memory (shared_sum.h)
// have in common. Plain values and functions without state; any thread.
#ifndef KEEL_CORE_GROUP_SUM_PLACE_H
#define KEEL_CORE_GROUP_SUM_PLACE_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "keel/core/base/error.h"

namespace keel {

// All ranks count alike.
struct SumPlace {
  int64_t collective = 0;  // sums begun so far
  int64_t reduction = 0;   // which of those that were made
  bool operator==(const SumPlace&) const = default;
};

// Another rank is at another sum than this one.
class SumsDiffer : public Error {
 public:
  SumsDiffer(int other_rank, const SumPlace& its_place);
  ~SumsDiffer() override;
  int rank() const noexcept { return rank_; }
  const SumPlace& place() const noexcept { return place_; }

 private:
  int rank_;
  SumPlace place_;
};

// How long a wait for another rank may still last. A time in which this process did not run, as
// while a terminal had stopped the job, counts for nothing. One thread.
class WaitLimit {
 public:
  explicit WaitLimit(std::chrono::milliseconds patience);
  // Says whether patience has ended. Whoever waits asks several times in each kLongTurn.
  bool over() noexcept;

  static constexpr std::chrono::milliseconds kLongTurn{500};

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_;  // when it was asked
  Clock::time_point deadline_;
};

// Throws Error: another rank takes or sends (`what`) nothing for so long.
[[noreturn]] void fail_silent(int other, const std::string& what,
                              std::chrono::milliseconds patience);

// Replaces `sums` by lower + upper. One body for all ranks and all ways that values travel: of two
// operands that are no number the first one's bits are kept, so the order of the operands has to be
// the same on all sides.
void add_values(const float* lower, const float* upper, float* sums, size_t count);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_SUM_PLACE_H
