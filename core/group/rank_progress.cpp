#include "keel/core/group/rank_progress.h"

#include <algorithm>
#include <cstring>

#include "keel/core/base/printable.h"

namespace keel {

void RankProgress::begin(const std::string& reduction) noexcept {
  uint64_t words[kNameWords] = {};
  std::memcpy(words, reduction.data(), std::min(reduction.size(), sizeof words));
  for (size_t i = 0; i < kNameWords; ++i) name[i].store(words[i], std::memory_order_relaxed);
  collective.fetch_add(1, std::memory_order_release);
}

std::string to_string(const RankProgress& progress) {
  const int64_t collective = progress.collective.load(std::memory_order_acquire);
  const int64_t step = progress.step.load(std::memory_order_relaxed);
  if (collective == 0) return "before its first collective";
  uint64_t words[RankProgress::kNameWords];
  for (size_t i = 0; i < RankProgress::kNameWords; ++i)
    words[i] = progress.name[i].load(std::memory_order_relaxed);
  std::string name(reinterpret_cast<const char*>(words), sizeof words);
  name.resize(std::min(name.find('\0'), name.size()));
  return (step > 0 ? "in step " + std::to_string(step) + ", " : "") + "at " + printable(name, 64) +
         " (collective " + std::to_string(collective) + ")";
}

}  // namespace keel
