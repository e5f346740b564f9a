// StepBallot: how the ranks of a group agree, by the last sum of a step, that all of them go on
// with the next one: such a step needs no vote of its own (group_agreement.h). A group owns one.
// The thread that runs the steps.
#ifndef KEEL_CORE_GROUP_STEP_BALLOT_H
#define KEEL_CORE_GROUP_STEP_BALLOT_H

#include <cstdint>
#include <utility>

namespace keel {

class StepBallot {
 public:
  // Says, for the next sum that carries the ballot, whether this rank is sure to go on; what an
  // earlier sum said is over. A rank that says nothing is not sure.
  void offer(bool sure) noexcept {
    sure_ = sure;
    all_sure_ = false;
  }
  // Returns whether all ranks were sure in the last sum that carried the ballot; says so once.
  bool all_sure() noexcept { return std::exchange(all_sure_, false); }

  // These two are for the sum: what it gives to Reduction::sum_and_agree, and what it gets.
  uint8_t take() noexcept {
    all_sure_ = false;
    return std::exchange(sure_, false) ? kSure : kUnsure;
  }
  void settle(uint8_t largest) noexcept { all_sure_ = largest == kSure; }

 private:
  // One rank that is not sure counts for all.
  static constexpr uint8_t kSure = 0, kUnsure = 1;
  bool sure_ = false;
  bool all_sure_ = false;
};

}  // namespace keel

#endif  // KEEL_CORE_GROUP_STEP_BALLOT_H
