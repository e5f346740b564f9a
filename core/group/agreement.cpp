#include "keel/core/group/agreement.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/group/group_agreement.h"

namespace keel {
namespace {

[[noreturn]] void throw_others_failed(const LoopAgreement* agreement) {
  if (const std::optional<RankLost> lost = loss_among(agreement)) throw RankLost(*lost);
  throw Error({.op = "loop",
               .message = "another party of it failed or is gone",
               .fix = "see that party's own error"});
}

// Holds what the parties of one process share.
class Table {
 public:
  explicit Table(size_t parties) : left_(parties, false), owed_(parties, 0) {}

  LoopVote agree(size_t party, LoopVote own) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (own == LoopVote::kFailed && left_[party]) {
      ++owed_[party];
      return LoopVote::kFailed;
    }
    // A party that has left a failed launch joins the next one only when all others have left it
    // too; until then the table still tells them of the failure.
    changed_.wait(lock, [&] { return gone_ || !left_[party]; });
    if (own == LoopVote::kFailed) broken_.store(true);
    if (broken_.load()) return leave(party);
    strongest_ = std::max(strongest_, own);
    const int64_t round = round_;
    if (++voted_ == left_.size()) {
      agreed_ = std::exchange(strongest_, LoopVote::kGoOn);
      voted_ = 0;
      ++round_;
      changed_.notify_all();
      return agreed_;
    }
    changed_.wait(lock, [&] { return round_ != round || broken_.load(); });
    return round_ != round ? agreed_ : leave(party);
  }

  void go() {
    const std::lock_guard<std::mutex> lock(mutex_);
    gone_ = true;
    broken_.store(true);
    changed_.notify_all();
  }

  // It is not broken for a party that has heard of it: what it waits for belongs to a later launch.
  bool broken(size_t party) const noexcept {
    if (!broken_.load(std::memory_order_acquire)) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    return gone_ || !left_[party];
  }

 private:
  // The last one to leave clears the table for the next launch.
  LoopVote leave(size_t party) {
    left_[party] = true;
    const bool all = std::find(left_.begin(), left_.end(), false) == left_.end();
    if (all && !gone_) {
      voted_ = 0;
      strongest_ = LoopVote::kGoOn;
      // A launch that a party failed before the others had left this one is the next one for them.
      bool again = false;
      for (size_t i = 0; i < left_.size(); ++i) {
        left_[i] = owed_[i] > 0;
        if (left_[i]) --owed_[i];
        again = again || left_[i];
      }
      broken_.store(again);
    }
    changed_.notify_all();
    return LoopVote::kFailed;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  size_t voted_ = 0;
  int64_t round_ = 0;
  LoopVote strongest_ = LoopVote::kGoOn;  // of the votes of this round
  LoopVote agreed_ = LoopVote::kGoOn;     // in the round before
  std::atomic<bool> broken_{false};
  bool gone_ = false;       // a party was destroyed
  std::vector<bool> left_;  // by party, of a launch in which somebody failed
  std::vector<int> owed_;   // by party: launches that failed since then
};

class LocalAgreement final : public LoopAgreement {
 public:
  LocalAgreement(std::shared_ptr<Table> table, size_t party)
      : table_(std::move(table)), party_(party) {}
  ~LocalAgreement() override { table_->go(); }
  LoopVote agree(LoopVote own) noexcept override { return table_->agree(party_, own); }
  bool broken() const noexcept override { return table_->broken(party_); }

 private:
  std::shared_ptr<Table> table_;
  size_t party_;
};

}  // namespace

LoopAgreement::~LoopAgreement() = default;

std::vector<std::shared_ptr<LoopAgreement>> make_local_agreements(size_t parties) {
  const auto table = std::make_shared<Table>(parties);
  std::vector<std::shared_ptr<LoopAgreement>> agreements;
  for (size_t i = 0; i < parties; ++i)
    agreements.push_back(std::make_shared<LocalAgreement>(table, i));
  return agreements;
}

bool LoopParty::leaves(LoopVote own) {
  verdict_ = agreement_ == nullptr ? own : agreement_->agree(own);
  if (verdict_ == LoopVote::kGoOn) return false;
  left_ = true;
  with_others_ = verdict_ != own;
  if (verdict_ == LoopVote::kFailed) throw_others_failed(agreement_);
  return true;
}

void LoopParty::fail() noexcept {
  if (agreement_ != nullptr && !left_) agreement_->agree(LoopVote::kFailed);
  left_ = true;
}

void AbortContext::require_own_stop() const {
  if (agreement_ != nullptr) throw_others_failed(agreement_);
}

}  // namespace keel
