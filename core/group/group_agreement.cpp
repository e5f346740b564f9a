#include "keel/core/group/group_agreement.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace keel {
namespace {

// By vote, how many ranks gave it; sums of so small numbers are exact. Behind them, what each rank
// has waited (CollectiveTimes::give).
constexpr size_t kVotes = static_cast<size_t>(LoopVote::kFailed);

class GroupAgreement final : public LoopAgreement {
 public:
  explicit GroupAgreement(std::shared_ptr<Group> group)
      : group_(std::move(group)),
        counts_(group_->make_reduction("votes", kVotes + static_cast<size_t>(group_->size()))) {}

  LoopVote agree(LoopVote own) noexcept override {
    if (own == LoopVote::kFailed) {
      group_->fail("its loop ended with an error");
      return LoopVote::kFailed;
    }
    count_steps();
    try {
      std::fill_n(counts_->data(), kVotes, 0.0f);
      counts_->data()[static_cast<size_t>(own)] = 1;
      group_->times().give(counts_->data() + kVotes);
      counts_->sum();
      group_->times().take(counts_->data() + kVotes);
    } catch (const std::exception&) {
      return LoopVote::kFailed;
    }
    for (size_t vote = kVotes; vote-- > 0;) {
      if (counts_->data()[vote] > 0) return static_cast<LoopVote>(vote);
    }
    return LoopVote::kFailed;
  }
  bool broken() const noexcept override { return group_->broken(); }

 private:
  // A loop votes before its first step, then before and behind each (LoopAgreement): the votes of a
  // launch with an even number are those before steps.
  void count_steps() noexcept {
    if (launches_ != group_->launches()) {
      launches_ = group_->launches();
      first_step_ = group_->step();
      votes_ = 0;
    }
    if (launches_ > 0 && ++votes_ % 2 == 0) group_->begin_step(first_step_ + votes_ / 2 - 1);
  }

  std::shared_ptr<Group> group_;
  int64_t launches_ = 0;
  int64_t first_step_ = 0;
  int64_t votes_ = 0;  // of this launch
  std::unique_ptr<Reduction> counts_;
};

}  // namespace

std::shared_ptr<LoopAgreement> make_group_agreement(std::shared_ptr<Group> group) {
  return std::make_shared<GroupAgreement>(std::move(group));
}

}  // namespace keel
