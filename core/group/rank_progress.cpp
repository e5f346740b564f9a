#include "keel/core/group/rank_progress.h"

#include <algorithm>
#include <cstring>

#include "keel/core/base/printable.h"

namespace keel {
namespace {

// Text as words, cut or filled with zeros.
template <size_t count>
void store(const std::string& text, std::atomic<uint64_t> (&to)[count]) noexcept {
  uint64_t words[count] = {};
  std::memcpy(words, text.data(), std::min(text.size(), sizeof words));
  for (size_t i = 0; i < count; ++i) to[i].store(words[i], std::memory_order_relaxed);
}

template <size_t count>
std::string load(const std::atomic<uint64_t> (&from)[count]) {
  uint64_t words[count];
  for (size_t i = 0; i < count; ++i) words[i] = from[i].load(std::memory_order_relaxed);
  std::string text(reinterpret_cast<const char*>(words), sizeof words);
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

}  // namespace

void RankProgress::begin(const std::string& reduction) noexcept {
  store(reduction, name);
  collective_step.store(step.load(std::memory_order_relaxed), std::memory_order_relaxed);
  collective.fetch_add(1, std::memory_order_release);
}

void RankProgress::save(const std::string& path) noexcept {
  checkpoint_bytes.store(0, std::memory_order_release);
  if (path.size() > sizeof checkpoint) return;
  store(path, checkpoint);
  checkpoint_bytes.store(path.size(), std::memory_order_release);
}

std::string RankProgress::saved() const {
  const uint64_t bytes = checkpoint_bytes.load(std::memory_order_acquire);
  return load(checkpoint).substr(0, bytes);
}

std::string to_string(const RankProgress& progress) {
  const int64_t collective = progress.collective.load(std::memory_order_acquire);
  const int64_t step = progress.step.load(std::memory_order_relaxed);
  if (collective == 0) return "before its first collective";
  const int64_t reached = progress.collective_step.load(std::memory_order_relaxed);
  const std::string where =
      printable(load(progress.name), 64) + " (collective " + std::to_string(collective) + ")";
  if (step == 0) return "at " + where;
  const std::string in_step = "in step " + std::to_string(step) + ", ";
  if (reached == step) return in_step + "at " + where;
  return in_step + "behind " + where + (reached > 0 ? " of step " + std::to_string(reached) : "");
}

}  // namespace keel
