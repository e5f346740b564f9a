#include "keel/core/group/shared_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <string>

namespace keel {
namespace {

using std::chrono::steady_clock;

// A rank that waits looks so often whether it was shut.
constexpr std::chrono::milliseconds kShutGlance{20};
// Ranks are rarely further apart than this where each has a core of its own.
constexpr std::chrono::microseconds kSpin{50};
// The sums of a block, and what a level of the tree needs beside them, stay in the first cache.
constexpr size_t kSharedBlockElements = 1024;
// Shares of ranks begin at a cache line of their own.
constexpr size_t kShareUnit = 64 / sizeof(float);
constexpr size_t kMostLevels = 16;

// Sums a block of the elements over ranks, in the order of SocketSum: ranks beyond the largest
// power of two are added to those at the beginning, and these as a balanced tree.
class BlockSum {
 public:
  BlockSum(const std::vector<SharedMemory>& ranks, size_t first, size_t count)
      : ranks_(ranks), first_(first), count_(count) {}

  const float* run() { return tree(0, std::bit_floor(ranks_.size()), 0); }

 private:
  const float* values(size_t rank) const {
    return static_cast<const float*>(ranks_[rank].address()) + first_;
  }
  // Returns where the sums of ranks [begin, begin + size) are.
  const float* tree(size_t begin, size_t size, size_t level) {
    float* own = sums_[level].data();
    if (size == 1) {
      const size_t partner = begin + std::bit_floor(ranks_.size());
      if (partner >= ranks_.size()) return values(begin);
      add_values(values(begin), values(partner), own, count_);
      return own;
    }
    // The first half's sums may lie in the buffer of this level, the second half's do not.
    const float* lower = tree(begin, size / 2, level);
    const float* upper = tree(begin + size / 2, size / 2, level + 1);
    add_values(lower, upper, own, count_);
    return own;
  }

  const std::vector<SharedMemory>& ranks_;
  const size_t first_, count_;
  std::array<std::array<float, kSharedBlockElements>, kMostLevels> sums_;
};

}  // namespace

SharedSum::SharedSum(int rank, std::chrono::milliseconds patience, const GatherTexts& gather)
    : rank_(rank), patience_(patience), lines_(share_memory(rank, sizeof(Line), gather)) {
  new (lines_[static_cast<size_t>(rank)].address()) Line();
  // The others look at it when it is there.
  gather("");
}

float* SharedSum::add_reduction(size_t count, const GatherTexts& gather) {
  Values values;
  values.count = count;
  if (count > 0) values.memory = share_memory(rank_, count * sizeof(float), gather);
  reductions_.push_back(std::move(values));
  if (count == 0) return nullptr;
  return static_cast<float*>(reductions_.back().memory[static_cast<size_t>(rank_)].address());
}

uint8_t SharedSum::run(const SumPlace& place, uint8_t vote) {
  Line& own = line(rank_);
  const auto entry = static_cast<size_t>(place.collective % 2);
  const auto step = static_cast<uint32_t>(2 * place.collective);
  own.places[entry] = place;
  own.votes[entry] = vote;
  own.steps.store(step - 1);
  wait_for_all(step - 1);
  met_ = steady_clock::now();
  uint8_t strongest = vote;
  for (int other = 0; other < static_cast<int>(lines_.size()); ++other) {
    if (line(other).places[entry] != place) throw SumsDiffer(other, line(other).places[entry]);
    strongest = std::max(strongest, line(other).votes[entry]);
  }
  const Values& values = reductions_[static_cast<size_t>(place.reduction)];
  if (values.count == 0) return strongest;
  sum_share(values);
  own.steps.store(step);
  wait_for_all(step);
  return strongest;
}

SharedSum::Line& SharedSum::line(int rank) const {
  return *static_cast<Line*>(lines_[static_cast<size_t>(rank)].address());
}

void SharedSum::wait_for_all(uint32_t step) const {
  for (int other = 0; other < static_cast<int>(lines_.size()); ++other) {
    if (other != rank_) wait_for(other, step);
  }
}

void SharedSum::wait_for(int other, uint32_t step) const {
  const WaitWord& steps = line(other).steps;
  WaitLimit limit(patience_);
  std::chrono::nanoseconds spin = kSpin;
  while (true) {
    const uint32_t seen = steps.load();
    // The count wraps.
    if (static_cast<int32_t>(seen - step) >= 0) return;
    if (shut_.load()) throw Error("the sums of this rank have ended");
    if (limit.over()) fail_silent(other, "sends", patience_);
    if (!steps.wait_while(seen, kShutGlance, spin)) spin = WaitWord::kSpin;
  }
}

void SharedSum::sum_share(const Values& values) const {
  const size_t ranks = lines_.size(), own = static_cast<size_t>(rank_);
  const size_t units = (values.count + kShareUnit - 1) / kShareUnit;
  const size_t end = std::min(values.count, units * (own + 1) / ranks * kShareUnit);
  for (size_t first = units * own / ranks * kShareUnit; first < end;
       first += kSharedBlockElements) {
    const size_t count = std::min(kSharedBlockElements, end - first);
    BlockSum block(values.memory, first, count);
    const float* sums = block.run();
    for (const SharedMemory& memory : values.memory) {
      float* to = static_cast<float*>(memory.address()) + first;
      std::memcpy(to, sums, count * sizeof(float));
    }
  }
}

}  // namespace keel
