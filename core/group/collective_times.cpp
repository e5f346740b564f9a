#include "keel/core/group/collective_times.h"

#include <algorithm>
#include <cmath>

namespace keel {
namespace {

int64_t ns_between(CollectiveTimes::Clock::time_point begin,
                   CollectiveTimes::Clock::time_point end) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
}

}  // namespace

CollectiveTimes::CollectiveTimes(int rank, int size)
    : rank_(static_cast<size_t>(rank)), waited_ns_(static_cast<size_t>(size)) {
  voted_.waited_ns.resize(static_cast<size_t>(size));
}

void CollectiveTimes::add(std::string_view name, int64_t step, Clock::time_point begin,
                          Clock::time_point met, Clock::time_point end) noexcept {
  waited_ns_[rank_].fetch_add(ns_between(begin, met), std::memory_order_relaxed);
  summed_ns_.fetch_add(ns_between(met, end), std::memory_order_relaxed);
  const bool wanted = step >= first_step_ && step <= last_step_;
  if (!wanted) return;
  if (recorded_.size() == most_recorded_) {
    ++dropped_;
    return;
  }
  CollectiveSpan& span = recorded_.emplace_back();
  span.step = step;
  std::copy_n(name.data(), std::min(name.size(), span.name.size() - 1), span.name.data());
  span.begin = begin;
  span.met = met;
  span.end = end;
}

void CollectiveTimes::record(int64_t first_step, int64_t last_step, size_t most) {
  recorded_.clear();
  recorded_.reserve(most);
  most_recorded_ = most;
  dropped_ = 0;
  first_step_ = first_step;
  last_step_ = last_step;
}

void CollectiveTimes::give(float* seconds) noexcept {
  std::fill_n(seconds, waited_ns_.size(), 0.0f);
  const int64_t waited = waited_ns_[rank_].load(std::memory_order_relaxed);
  seconds[rank_] = static_cast<float>(static_cast<double>(waited - given_ns_) * 1e-9);
  given_ns_ = waited;
}

void CollectiveTimes::take(const float* seconds) noexcept {
  for (size_t rank = 0; rank < waited_ns_.size(); ++rank) {
    // This rank knows its own waits better.
    if (rank == rank_) continue;
    waited_ns_[rank].fetch_add(std::llround(static_cast<double>(seconds[rank]) * 1e9),
                               std::memory_order_relaxed);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  ++voted_.votes;
  voted_.at = Clock::now();
  for (size_t rank = 0; rank < waited_ns_.size(); ++rank)
    voted_.waited_ns[rank] = rank == rank_ ? given_ns_ : waited_ns_[rank].load();
}

VotedWaits CollectiveTimes::voted_waits() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return voted_;
}

}  // namespace keel
