#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>

#include "keel/core/group/group.h"
#include "keel/core/tensor/buffer.h"

namespace keel {
namespace {

// Holds what the ranks of one process share. A call of all ranks is a round: each brings its
// arguments, the last one to come does the work for all.
class Meeting {
 public:
  struct Arguments {
    void* bytes = nullptr;
    const std::string* text = nullptr;
  };
  using Work = std::function<void(const std::vector<Arguments>&)>;

  explicit Meeting(size_t size) : arguments_(size) {}

  // `work` throws where the ranks did not bring the same; then all of them get its error.
  void meet(size_t rank, Arguments own, const Work& work) {
    std::unique_lock<std::mutex> lock(mutex_);
    require_whole();
    arguments_[rank] = own;
    const int64_t round = round_;
    if (++arrived_ == arguments_.size()) {
      arrived_ = 0;
      try {
        work(arguments_);
        ++round_;
      } catch (const std::exception& error) {
        cause_ = error.what();
      }
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || !cause_.empty(); });
    if (round_ == round) require_whole();
  }

  void fail(const std::string& why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cause_.empty()) cause_ = why.empty() ? "a rank failed" : why;
    changed_.notify_all();
  }
  bool broken() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !cause_.empty();
  }

 private:
  void require_whole() const {
    if (!cause_.empty()) throw RankLost({.message = cause_});
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Arguments> arguments_;
  size_t arrived_ = 0;
  int64_t round_ = 0;
  std::string cause_;  // why no rank goes on; "" while all do
};

// Sums the elements of ranks [begin, end) as a balanced tree.
float tree_sum(const std::vector<Meeting::Arguments>& by_rank, size_t element, size_t begin,
               size_t end) {
  if (end - begin == 1) return static_cast<const float*>(by_rank[begin].bytes)[element];
  const size_t middle = begin + (end - begin) / 2;
  return tree_sum(by_rank, element, begin, middle) + tree_sum(by_rank, element, middle, end);
}

class LocalReduction final : public Reduction {
 public:
  LocalReduction(std::shared_ptr<Meeting> meeting, size_t rank, const std::string& name,
                 size_t count)
      : meeting_(std::move(meeting)),
        rank_(rank),
        name_(name),
        values_(allocate_host_buffer(count * sizeof(float))) {
    data_ = static_cast<float*>(values_->address());
    size_ = count;
  }
  void sum() override {
    meeting_->meet(rank_, {data_, &name_}, [this](const auto& by_rank) {
      require_same_name(by_rank);
      for (size_t i = 0; i < size_; ++i) {
        const float total = tree_sum(by_rank, i, 0, by_rank.size());
        for (const Meeting::Arguments& arguments : by_rank)
          static_cast<float*>(arguments.bytes)[i] = total;
      }
    });
  }

 private:
  // Allocates where they differ.
  static void require_same_name(const std::vector<Meeting::Arguments>& by_rank) {
    const auto is_first = [&](const auto& own) { return *own.text == *by_rank[0].text; };
    if (std::all_of(by_rank.begin(), by_rank.end(), is_first)) return;
    std::vector<std::string> names;
    for (const Meeting::Arguments& arguments : by_rank) names.push_back(*arguments.text);
    require_equal("COLLECTIVE_DIVERGED", names);
  }

  std::shared_ptr<Meeting> meeting_;
  size_t rank_;
  std::string name_;
  std::shared_ptr<Buffer> values_;
};

class LocalGroup final : public Group {
 public:
  LocalGroup(std::shared_ptr<Meeting> meeting, int rank, int size)
      : Group(rank, size), meeting_(std::move(meeting)) {}
  ~LocalGroup() override {
    if (!left_) meeting_->fail("rank " + std::to_string(rank()) + " is gone");
  }

  std::unique_ptr<Reduction> make_reduction(const std::string& name, size_t count) override {
    require_equal("COLLECTIVE_DIVERGED",
                  all_gather("makes '" + name + "' of " + std::to_string(count)));
    return std::make_unique<LocalReduction>(meeting_, static_cast<size_t>(rank()), name, count);
  }
  std::vector<std::string> all_gather(const std::string& own) override {
    std::vector<std::string> gathered;
    std::pair<const std::string*, std::vector<std::string>*> place{&own, &gathered};
    meet(&place, [](const auto& by_rank) {
      for (const Meeting::Arguments& to : by_rank) {
        for (const Meeting::Arguments& from : by_rank) {
          static_cast<decltype(place)*>(to.bytes)->second->push_back(
              *static_cast<decltype(place)*>(from.bytes)->first);
        }
      }
    });
    return gathered;
  }
  void broadcast(void* bytes, size_t count, int root) override {
    meet(bytes, [count, root](const auto& by_rank) {
      const void* source = by_rank[static_cast<size_t>(root)].bytes;
      for (const Meeting::Arguments& to : by_rank) {
        if (to.bytes != source && count > 0) std::memcpy(to.bytes, source, count);
      }
    });
  }
  void leave() override {
    meet(nullptr, [](const auto&) {});
    left_ = true;
  }
  void fail(const std::string& why) noexcept override { meeting_->fail(why); }
  bool broken() const noexcept override { return meeting_->broken(); }

 private:
  void meet(void* bytes, const Meeting::Work& work) {
    meeting_->meet(static_cast<size_t>(rank()), {bytes, nullptr}, work);
  }

  std::shared_ptr<Meeting> meeting_;
  bool left_ = false;
};

}  // namespace

std::vector<std::shared_ptr<Group>> make_local_groups(int size) {
  const auto meeting = std::make_shared<Meeting>(static_cast<size_t>(size));
  std::vector<std::shared_ptr<Group>> groups;
  for (int i = 0; i < size; ++i) groups.push_back(std::make_shared<LocalGroup>(meeting, i, size));
  return groups;
}

}  // namespace keel
