#include "keel/core/group/sum_place.h"

namespace keel {

SumsDiffer::SumsDiffer(int other_rank, const SumPlace& its_place)
    : Error({.message = "rank " + std::to_string(other_rank) + " is at another sum"}),
      rank_(other_rank),
      place_(its_place) {}
SumsDiffer::~SumsDiffer() = default;

WaitLimit::WaitLimit(std::chrono::milliseconds patience)
    : last_(Clock::now()), deadline_(last_ + patience) {}

bool WaitLimit::over() noexcept {
  const Clock::time_point now = Clock::now();
  const Clock::duration turn = now - last_;
  last_ = now;
  if (turn > kLongTurn) deadline_ += turn;
  return now >= deadline_;
}

void fail_silent(int other, const std::string& what, std::chrono::milliseconds patience) {
  throw Error({.message = "rank " + std::to_string(other) + " " + what + " nothing for " +
                          std::to_string(patience.count()) + " ms"});
}

[[gnu::noinline]] void add_values(const float* lower, const float* upper, float* sums,
                                  size_t count) {
  for (size_t i = 0; i < count; ++i) sums[i] = lower[i] + upper[i];
}

}  // namespace keel
