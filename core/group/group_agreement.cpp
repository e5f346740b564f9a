#include "keel/core/group/group_agreement.h"

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "keel/core/base/thrown_text.h"

namespace keel {
namespace {

// The sums carry what each rank has waited (CollectiveTimes::give).
class GroupAgreement final : public LoopAgreement {
 public:
  explicit GroupAgreement(std::shared_ptr<Group> group)
      : group_(std::move(group)),
        votes_(group_->make_reduction("votes", static_cast<size_t>(group_->size()))) {}

  LoopVote agree(LoopVote own) noexcept override {
    if (own == LoopVote::kFailed) {
      group_->fail(text_of_thrown("its loop ended with an error"));
      return LoopVote::kFailed;
    }
    try {
      group_->times().give(votes_->data());
      const auto agreed = static_cast<LoopVote>(votes_->sum_and_agree(static_cast<uint8_t>(own)));
      group_->times().take(votes_->data());
      return agreed;
    } catch (const std::exception&) {
      return LoopVote::kFailed;
    }
  }
  bool broken() const noexcept override { return group_->broken(); }
  Group& group() const noexcept { return *group_; }

 private:
  std::shared_ptr<Group> group_;
  std::unique_ptr<Reduction> votes_;
};

std::string loss_of(const LoopAgreement* agreement) {
  const Group* group = group_of(agreement);
  return group == nullptr ? "" : group->loss();
}

}  // namespace

std::shared_ptr<LoopAgreement> make_group_agreement(std::shared_ptr<Group> group) {
  return std::make_shared<GroupAgreement>(std::move(group));
}

Group* group_of(const LoopAgreement* agreement) noexcept {
  const auto* of_ranks = dynamic_cast<const GroupAgreement*>(agreement);
  return of_ranks == nullptr ? nullptr : &of_ranks->group();
}

std::optional<RankLost> loss_among(const LoopAgreement* agreement) {
  const std::string loss = loss_of(agreement);
  if (loss.empty()) return std::nullopt;
  return group_of(agreement)->ended_by(loss);
}

bool tells_of_loss(const LoopAgreement* agreement, const Error& error) {
  const std::string loss = loss_of(agreement);
  return !loss.empty() && std::string_view(error.what()).find(loss) != std::string_view::npos;
}

}  // namespace keel
