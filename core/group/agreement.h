// LoopAgreement: parties that run the same loop, each with its own data, and leave it behind the
// same step: whoever wants to leave says so, and all of them hear it before the next step begins.
// The ranks of a group are such parties (group_agreement.h); make_local_agreements makes some
// within a process. AbortContext: what
// a kernel that waits for something outside looks at meanwhile.
#ifndef KEEL_CORE_GROUP_AGREEMENT_H
#define KEEL_CORE_GROUP_AGREEMENT_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "keel/core/base/export.h"

namespace keel {

// Says why a party wants to leave; of several the last of these counts for all.
enum class LoopVote : uint8_t {
  kGoOn,
  kStepsDone,
  kStopWhen,   // the step's own stop value
  kEndOfData,  // no element for the next step
  kStop,       // somebody asked for it
  kFailed,
};

// One party's end of it. Each party calls agree() equally often: before each step of a launch, once
// an element for it is there or the party knows why it leaves, and behind the last step; whoever
// runs several launches in a row (Trainer) once more before each of them and at its end. A party
// that fails votes kFailed instead of its next vote, and calls it no more in this launch.
// agree: the thread that runs the loop. The rest: any thread.
class KEEL_API LoopAgreement {
 public:
  virtual ~LoopAgreement();
  // Waits until every party has voted, and returns what counts for all: kFailed too where a party
  // will not vote any more. A party that has failed, or heard of a failure, and votes kFailed
  // before all have heard of it does not wait. Never throws.
  virtual LoopVote agree(LoopVote own) noexcept = 0;
  // Returns whether a party failed or is gone: whatever waits for it inside a step gives up.
  virtual bool broken() const noexcept = 0;
};

// Any number of parties of one process, one entry each. A party that is destroyed is gone; a launch
// that begins after all parties have left the one before it begins anew.
KEEL_API std::vector<std::shared_ptr<LoopAgreement>> make_local_agreements(size_t parties);

// A party's way through one launch: alone where there is no agreement. One thread.
class KEEL_API LoopParty {
 public:
  explicit LoopParty(LoopAgreement* agreement = nullptr) noexcept : agreement_(agreement) {}
  // Votes; whether the loop ends here. Throws Error where another party failed or is gone.
  bool leaves(LoopVote own);
  // Returns what counted for all in the last vote.
  LoopVote verdict() const noexcept { return verdict_; }
  // Tells the others that this party ends with an error, where they do not know that it ends.
  void fail() noexcept;
  // Returns whether it was for another party's sake that the loop ended.
  bool left_with_others() const noexcept { return with_others_; }

 private:
  LoopAgreement* agreement_;
  LoopVote verdict_ = LoopVote::kGoOn;
  bool left_ = false;
  bool with_others_ = false;
};

// Tells the other parties that this one fails where it is destroyed before it is dismissed: held
// while what throws is not yet a vote. One thread.
class FailureToTell {
 public:
  explicit FailureToTell(LoopAgreement* agreement) noexcept : party_(agreement) {}
  ~FailureToTell() {
    if (armed_) party_.fail();
  }
  FailureToTell(const FailureToTell&) = delete;
  FailureToTell& operator=(const FailureToTell&) = delete;
  void dismiss() noexcept { armed_ = false; }

 private:
  LoopParty party_;
  bool armed_ = true;
};

// Tells kernels what ends a wait inside a step, or a loop that never ends by itself. Any thread.
class KEEL_API AbortContext {
 public:
  // Either may be null. With other parties a stop is agreed behind the step, so only their failure
  // ends a wait inside it.
  AbortContext(const std::atomic<bool>* stop, const LoopAgreement* agreement) noexcept
      : stop_(stop), agreement_(agreement) {}
  // Looked at every few milliseconds by whoever waits.
  bool aborted() const noexcept {
    if (agreement_ != nullptr) return agreement_->broken();
    return stop_ != nullptr && stop_->load(std::memory_order_relaxed);
  }
  // Throws Error where it was another party's failure; else the step is given up without one.
  void require_own_stop() const;

 private:
  const std::atomic<bool>* stop_;
  const LoopAgreement* agreement_;
};

}  // namespace keel

#endif  // KEEL_CORE_GROUP_AGREEMENT_H
