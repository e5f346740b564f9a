// Group: the ranks of a job, which sum, broadcast and gather together. Every rank has one object of
// it and makes the same calls in the same order; a call returns when all ranks have made it, or
// throws RankLost where one will not. make_local_groups makes one within a process (threads are its
// ranks); join_group (join_group.h) one of processes. One thread at a time, but for begin_step(),
// note_checkpoint(), step(), fail(), broken(), loss() and times().
#ifndef KEEL_CORE_GROUP_GROUP_H
#define KEEL_CORE_GROUP_GROUP_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/base/export.h"
#include "keel/core/group/collective_times.h"
#include "keel/core/group/rank_progress.h"
#include "keel/core/group/step_ballot.h"

namespace keel {

// Another rank is gone, was stopped, does not come, or does something else than this one.
class KEEL_API RankLost : public Error {
 public:
  using Error::Error;
  ~RankLost() override;
};

// A sum over all ranks, of as many floats as it was made for (also none), in place. Its memory is
// zero at first and aligned like a Buffer's. Must not outlive its group.
class KEEL_API Reduction {
 public:
  virtual ~Reduction();
  float* data() noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  // Replaces each element by its sum over the ranks, with the same bits on all of them. Where the
  // number of ranks is a power of two the sum is a balanced tree: (0 + 1) + (2 + 3).
  // Allocates nothing. Throws RankLost, which names the step (Group::begin_step) and this
  // reduction.
  void sum() { sum_and_agree(0); }
  // The same, and returns the largest of what the ranks gave as `vote`, which takes no message of
  // its own.
  virtual uint8_t sum_and_agree(uint8_t vote) = 0;

 protected:
  float* data_ = nullptr;
  size_t size_ = 0;
};

class KEEL_API Group {
 public:
  virtual ~Group();
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  // All ranks make their reductions in the same order, of the same names and sizes; throws RankLost
  // with both where they do not.
  virtual std::unique_ptr<Reduction> make_reduction(const std::string& name, size_t count) = 0;
  // Returns what each rank gave, in the order of ranks.
  virtual std::vector<std::string> all_gather(const std::string& own) = 0;
  // Replaces the bytes by those of `root`; `count` is the same on all ranks.
  virtual void broadcast(void* bytes, size_t count, int root) = 0;
  // Says which step the calls belong to from now on. Whoever runs the steps of a loop calls it.
  void begin_step(int64_t step) noexcept { progress_->step.store(step); }
  // Says which file there is to go on from. Any thread.
  void note_checkpoint(const std::string& path) noexcept { progress_->save(path); }
  int64_t step() const noexcept { return progress_->step.load(); }
  // Returns how the values of sums travel: "one process", "shared memory", or "sockets" with the
  // reason in brackets.
  virtual std::string transport() const = 0;
  // Returns how long the ranks have waited for one another in sums.
  CollectiveTimes& times() noexcept { return times_; }

  // Returns what sums within a step carry besides.
  StepBallot& ballot() noexcept { return ballot_; }

  // Waits until every rank is here. The last call: afterwards this rank may go.
  virtual void leave() = 0;

  // Ends every call of this rank, now and later, with a RankLost that says why, and tells the other
  // ranks. Any thread.
  virtual void fail(const std::string& why) noexcept = 0;
  // Returns whether this or another rank failed. Any thread.
  virtual bool broken() const noexcept = 0;
  // Returns which other rank failed, was lost or did not come, and how; empty while none is known
  // to have, and where this rank failed first. Any thread.
  virtual std::string loss() const = 0;
  // Makes the error of a call that another rank's loss ended: it says how far this rank was.
  RankLost ended_by(const std::string& loss) const;

 protected:
  // `progress`: where this rank notes how far it is; null: where nobody else looks.
  Group(int rank, int size, RankProgress* progress = nullptr)
      : rank_(rank),
        size_(size),
        times_(rank, size),
        progress_(progress != nullptr ? progress : &own_progress_) {}
  RankProgress& progress() noexcept { return *progress_; }

 private:
  int rank_;
  int size_;
  CollectiveTimes times_;
  RankProgress own_progress_;
  RankProgress* progress_;
  StepBallot ballot_;
};

// The ranks of one process: one entry for each, which a thread of its own uses.
KEEL_API std::vector<std::shared_ptr<Group>> make_local_groups(int size);

// Throws RankLost, with the entries of the first two that differ, unless all are equal.
KEEL_API void require_equal(const std::string& code, const std::vector<std::string>& by_rank);
// Gathers what each rank has, and throws likewise, on all ranks.
KEEL_API void require_equal(Group& group, const std::string& code, const std::string& own);

// Waits until all ranks are here, or one is lost: for ranks that are about to end because of what
// all of them know, so that none hears first that another one is gone.
KEEL_API void end_together(Group& group);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_GROUP_H
