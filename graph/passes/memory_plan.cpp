#include "keel/graph/passes/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "keel/core/base/checked.h"
#include "keel/core/tensor/buffer.h"

namespace keel {
namespace {

size_t padded(size_t bytes) { return align_up(bytes, Buffer::kAlignment); }

size_t most_bytes_live(const std::vector<LifeSpan>& spans) {
  std::map<int64_t, int64_t> change;
  for (const LifeSpan& s : spans) {
    change[s.first] += static_cast<int64_t>(padded(s.bytes));
    change[s.last + 1] -= static_cast<int64_t>(padded(s.bytes));
  }
  int64_t live = 0;
  int64_t most = 0;
  for (const auto& [time, delta] : change) {
    live += delta;
    most = std::max(most, live);
  }
  return static_cast<size_t>(most);
}

}  // namespace

MemoryPlan plan_memory(const std::vector<LifeSpan>& spans) {
  MemoryPlan plan;
  plan.offsets.assign(spans.size(), 0);
  plan.lower_bound = most_bytes_live(spans);

  std::vector<size_t> order(spans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (padded(spans[a].bytes) != padded(spans[b].bytes)) return spans[a].bytes > spans[b].bytes;
    return spans[a].first < spans[b].first;
  });

  // Buffers placed so far, by the tasks at which they live, so that a short life is compared with
  // its neighbours only.
  constexpr int64_t kTasksPerBucket = 16;
  constexpr int64_t kLongLife = 64 * kTasksPerBucket;
  std::map<int64_t, std::vector<size_t>> buckets;
  std::vector<size_t> long_lived;
  std::vector<std::pair<size_t, size_t>> taken;  // offset, end
  for (const size_t i : order) {
    const LifeSpan& span = spans[i];
    if (span.bytes == 0) continue;
    taken.clear();
    const auto consider = [&](size_t other) {
      const LifeSpan& o = spans[other];
      if (o.first > span.last || o.last < span.first) return;
      taken.emplace_back(plan.offsets[other], plan.offsets[other] + padded(o.bytes));
    };
    const int64_t low = span.first / kTasksPerBucket;
    const int64_t high = span.last / kTasksPerBucket;
    for (auto it = buckets.lower_bound(low); it != buckets.end() && it->first <= high; ++it) {
      for (const size_t other : it->second) consider(other);
    }
    for (const size_t other : long_lived) consider(other);
    std::sort(taken.begin(), taken.end());
    size_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (begin >= offset + padded(span.bytes)) break;
      offset = std::max(offset, end);
    }
    plan.offsets[i] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + padded(span.bytes));
    if (span.last - span.first >= kLongLife) {
      long_lived.push_back(i);
    } else {
      for (int64_t b = low; b <= high; ++b) buckets[b].push_back(i);
    }
  }
  return plan;
}

}  // namespace keel
