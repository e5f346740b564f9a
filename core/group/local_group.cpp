#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "keel/core/group/group.h"
#include "keel/core/group/rank_table.h"
#include "keel/core/group/root_rank.h"
#include "keel/core/tensor/buffer.h"

namespace keel {
namespace {

// Holds what the ranks of one process share. A call of all ranks is a round: each brings its
// arguments, the last one to come does the work for all.
class Meeting {
 public:
  enum class Kind : uint8_t { kGather, kBroadcast, kSum, kLeave };
  struct Arguments {
    Kind kind = Kind::kLeave;
    void* bytes = nullptr;
    size_t count = 0;  // of the bytes of a broadcast
    int root = 0;
    const std::string* text = nullptr;  // the name of a reduction
    uint8_t* vote = nullptr;
    int64_t number = 0;  // of a reduction, counted as a rank makes them
  };
  using Work = std::function<void(const std::vector<Arguments>&)>;
  using Clock = CollectiveTimes::Clock;

  explicit Meeting(size_t size) : arguments_(size) {}

  // `work` throws where the ranks did not bring the same; then all of them get its error.
  // Returns false where a rank failed, before or meanwhile. `complete`: when the last one came.
  bool meet(size_t rank, Arguments own, const Work& work, Clock::time_point* complete) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!cause_.empty()) return false;
    arguments_[rank] = own;
    const int64_t round = round_;
    if (++arrived_ == arguments_.size()) {
      arrived_ = 0;
      complete_ = Clock::now();
      try {
        require_same_call();
        work(arguments_);
        ++round_;
      } catch (const std::exception& error) {
        cause_ = error.what();
      }
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || !cause_.empty(); });
    // The next round is not complete before this rank comes to it.
    *complete = complete_;
    return round_ != round;
  }

  void fail(size_t rank, const std::string& how) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!cause_.empty()) return;
    cause_ = "rank " + std::to_string(rank) + " " + how;
    failed_ = rank;
    changed_.notify_all();
  }
  // Returns why no rank goes on; empty while all do.
  std::string cause() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return cause_;
  }
  // Returns the same for a rank that did not fail itself.
  std::string loss(size_t rank) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failed_ == rank ? "" : cause_;
  }

 private:
  // The work of one kind of call would take what another brings for something else.
  void require_same_call() const {
    const auto same = [&](const Arguments& other) {
      const Arguments& first = arguments_[0];
      return other.kind == first.kind && other.count == first.count && other.root == first.root;
    };
    if (std::all_of(arguments_.begin(), arguments_.end(), same)) return;
    std::vector<std::string> calls;
    for (const Arguments& arguments : arguments_) calls.push_back(call_of(arguments));
    require_equal("COLLECTIVE_DIVERGED", calls);
  }
  static std::string call_of(const Arguments& arguments) {
    switch (arguments.kind) {
      case Kind::kGather:
        return "gathers texts";
      case Kind::kBroadcast:
        return name_of_broadcast(arguments.count, arguments.root);
      case Kind::kSum:
        return "sums '" + *arguments.text + "'";
      case Kind::kLeave:
        return "leaves";
    }
    return "";
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Arguments> arguments_;
  size_t arrived_ = 0;
  int64_t round_ = 0;
  Clock::time_point complete_;
  std::string cause_;
  std::optional<size_t> failed_;  // the rank; none where all differ from one another
};

// Sums the elements of ranks [begin, end) as a balanced tree.
float tree_sum(const std::vector<Meeting::Arguments>& by_rank, size_t element, size_t begin,
               size_t end) {
  if (end - begin == 1) return static_cast<const float*>(by_rank[begin].bytes)[element];
  const size_t middle = begin + (end - begin) / 2;
  return tree_sum(by_rank, element, begin, middle) + tree_sum(by_rank, element, middle, end);
}

class LocalReduction;

class LocalGroup final : public Group {
 public:
  LocalGroup(std::shared_ptr<Meeting> meeting, int rank, int size)
      : Group(rank, size), meeting_(std::move(meeting)) {}
  ~LocalGroup() override {
    if (!left_) meeting_->fail(place(), "is gone before the others");
  }

  std::unique_ptr<Reduction> make_reduction(const std::string& name, size_t count) override;
  std::vector<std::string> all_gather(const std::string& own) override {
    std::vector<std::string> gathered;
    std::pair<const std::string*, std::vector<std::string>*> both{&own, &gathered};
    meet({.kind = Meeting::Kind::kGather, .bytes = &both}, [](const auto& by_rank) {
      for (const Meeting::Arguments& to : by_rank) {
        for (const Meeting::Arguments& from : by_rank) {
          static_cast<decltype(both)*>(to.bytes)->second->push_back(
              *static_cast<decltype(both)*>(from.bytes)->first);
        }
      }
    });
    return gathered;
  }
  void broadcast(void* bytes, size_t count, int root) override {
    require_root(*this, root);
    const Meeting::Arguments own = {
        .kind = Meeting::Kind::kBroadcast, .bytes = bytes, .count = count, .root = root};
    meet(own, [count, root](const auto& by_rank) {
      const void* source = by_rank[static_cast<size_t>(root)].bytes;
      for (const Meeting::Arguments& to : by_rank) {
        if (to.bytes != source && count > 0) std::memcpy(to.bytes, source, count);
      }
    });
  }
  std::string transport() const override { return "one process"; }
  void leave() override {
    meet({}, [](const auto&) {});
    left_ = true;
  }
  void fail(const std::string& why) noexcept override { meeting_->fail(place(), "failed: " + why); }
  bool broken() const noexcept override { return !meeting_->cause().empty(); }
  std::string loss() const override { return meeting_->loss(place()); }

  uint8_t sum(LocalReduction& reduction, uint8_t vote);

 private:
  size_t place() const noexcept { return static_cast<size_t>(rank()); }
  // Returns when all ranks were there.
  Meeting::Clock::time_point meet(const Meeting::Arguments& own, const Meeting::Work& work) {
    Meeting::Clock::time_point complete;
    if (meeting_->meet(place(), own, work, &complete)) return complete;
    throw ended_by(meeting_->cause());
  }

  std::shared_ptr<Meeting> meeting_;
  bool left_ = false;
  int64_t made_ = 0;
};

class LocalReduction final : public Reduction {
 public:
  LocalReduction(LocalGroup& group, std::string name, size_t count, int64_t number)
      : group_(group),
        name_(std::move(name)),
        number_(number),
        values_(allocate_host_buffer(count * sizeof(float))) {
    data_ = static_cast<float*>(values_->address());
    size_ = count;
  }
  const std::string& name() const noexcept { return name_; }
  int64_t number() const noexcept { return number_; }
  uint8_t sum_and_agree(uint8_t vote) override { return group_.sum(*this, vote); }

 private:
  LocalGroup& group_;
  const std::string name_;
  const int64_t number_;
  std::shared_ptr<Buffer> values_;
};

std::unique_ptr<Reduction> LocalGroup::make_reduction(const std::string& name, size_t count) {
  require_equal(*this, "COLLECTIVE_DIVERGED", "makes '" + name + "' of " + std::to_string(count));
  return std::make_unique<LocalReduction>(*this, name, count, ++made_);
}

uint8_t LocalGroup::sum(LocalReduction& reduction, uint8_t vote) {
  progress().begin(reduction.name());
  const auto begin = Meeting::Clock::now();
  const Meeting::Arguments own{.kind = Meeting::Kind::kSum,
                               .bytes = reduction.data(),
                               .text = &reduction.name(),
                               .vote = &vote,
                               .number = reduction.number()};
  const auto met = meet(own, [&](const auto& by_rank) {
    // All ranks make the same reductions, so that those of one number have one size.
    const auto differs = [&](const auto& other) { return other.number != by_rank[0].number; };
    if (std::any_of(by_rank.begin(), by_rank.end(), differs)) {
      std::vector<std::string> names;
      for (const Meeting::Arguments& arguments : by_rank) names.push_back(*arguments.text);
      if (std::equal(names.begin() + 1, names.end(), names.begin())) {
        for (size_t i = 0; i < names.size(); ++i)
          names[i] += ", made as number " + std::to_string(by_rank[i].number);
      }
      require_equal("COLLECTIVE_DIVERGED", names);
    }
    for (size_t i = 0; i < reduction.size(); ++i) {
      const float total = tree_sum(by_rank, i, 0, by_rank.size());
      for (const Meeting::Arguments& arguments : by_rank)
        static_cast<float*>(arguments.bytes)[i] = total;
    }
    uint8_t strongest = 0;
    for (const Meeting::Arguments& arguments : by_rank)
      strongest = std::max(strongest, *arguments.vote);
    for (const Meeting::Arguments& arguments : by_rank) *arguments.vote = strongest;
  });
  times().add(reduction.name(), step(), begin, met, Meeting::Clock::now());
  return vote;
}

}  // namespace

std::vector<std::shared_ptr<Group>> make_local_groups(int size) {
  if (size < 1 || size > kMostRanks)
    throw Error({.op = "make_local_groups",
                 .argument = "size",
                 .expected = "1 to " + std::to_string(kMostRanks) + " ranks",
                 .got = std::to_string(size),
                 .kind = ErrorKind::kInvalidArgument});
  const auto meeting = std::make_shared<Meeting>(static_cast<size_t>(size));
  std::vector<std::shared_ptr<Group>> groups;
  for (int i = 0; i < size; ++i) groups.push_back(std::make_shared<LocalGroup>(meeting, i, size));
  return groups;
}

}  // namespace keel
