#include "keel/graph/passes/memory_plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <queue>
#include <set>

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

// Says where the buffers lie, and how far they reach.
struct Placing {
  std::vector<size_t> offsets;
  size_t arena_bytes = 0;

  void put(size_t index, size_t offset, size_t bytes) {
    offsets[index] = offset;
    arena_bytes = std::max(arena_bytes, offset + padded(bytes));
  }
};

// Larger buffers first, each at the lowest gap that fits beside those it meets; ties by time, then
// by index. Gives up, with an arena of 0 bytes, once it has compared more than `most` pairs: their
// number may grow with the square of the buffers'.
Placing by_size(const std::vector<LifeSpan>& spans, size_t most) {
  Placing placing{std::vector<size_t>(spans.size(), 0), 0};
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
  size_t compared = 0;
  for (const size_t i : order) {
    const LifeSpan& span = spans[i];
    if (span.bytes == 0) continue;
    if (compared > most) return {};
    taken.clear();
    const auto consider = [&](size_t other) {
      const LifeSpan& o = spans[other];
      if (o.first > span.last || o.last < span.first) return;
      taken.emplace_back(placing.offsets[other], placing.offsets[other] + padded(o.bytes));
    };
    const int64_t low = span.first / kTasksPerBucket;
    const int64_t high = span.last / kTasksPerBucket;
    for (auto it = buckets.lower_bound(low); it != buckets.end() && it->first <= high; ++it) {
      compared += it->second.size();
      for (const size_t other : it->second) {
        // Once, in the first bucket that both are in.
        if (it->first == std::max(low, spans[other].first / kTasksPerBucket)) consider(other);
      }
    }
    compared += long_lived.size();
    for (const size_t other : long_lived) consider(other);
    std::sort(taken.begin(), taken.end());
    size_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (begin >= offset + padded(span.bytes)) break;
      offset = std::max(offset, end);
    }
    placing.put(i, offset, span.bytes);
    if (span.last - span.first >= kLongLife) {
      long_lived.push_back(i);
    } else {
      for (int64_t b = low; b <= high; ++b) buckets[b].push_back(i);
    }
  }
  return placing;
}

// The free parts of an arena that grows at its end.
class Gaps {
 public:
  // Returns the smallest gap that fits, the lowest of equal ones; else the end.
  size_t take(size_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit != by_size_.end()) {
      const auto [size, offset] = *fit;
      erase(by_offset_.find(offset));
      if (size > bytes) insert(offset + bytes, size - bytes);
      return offset;
    }
    size_t offset = end_;
    if (!by_offset_.empty()) {
      const auto last = std::prev(by_offset_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        erase(last);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  void give_back(size_t offset, size_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        erase(before);
      }
    }
    next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      erase(next);
    }
    insert(offset, bytes);
  }

 private:
  void insert(size_t offset, size_t bytes) {
    by_offset_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  void erase(std::map<size_t, size_t>::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    by_offset_.erase(gap);
  }

  std::map<size_t, size_t> by_offset_;           // to bytes
  std::set<std::pair<size_t, size_t>> by_size_;  // bytes, offset
  size_t end_ = 0;
};

// Places buffers in the order of time, or from its end: each takes the gap that fits it best when
// its life begins and gives it back behind its end. n log n.
Placing by_time(const std::vector<LifeSpan>& spans, bool from_end) {
  Placing placing{std::vector<size_t>(spans.size(), 0), 0};
  const auto begin = [&](size_t i) { return from_end ? -spans[i].last : spans[i].first; };
  const auto end = [&](size_t i) { return from_end ? -spans[i].first : spans[i].last; };
  std::vector<size_t> order(spans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (begin(a) != begin(b)) return begin(a) < begin(b);
    if (end(a) != end(b)) return end(a) > end(b);
    return spans[a].bytes > spans[b].bytes;
  });
  using Leaving = std::pair<int64_t, size_t>;  // when, which
  std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> living;
  Gaps gaps;
  for (const size_t i : order) {
    if (spans[i].bytes == 0) continue;
    for (; !living.empty() && living.top().first < begin(i); living.pop()) {
      const size_t gone = living.top().second;
      gaps.give_back(placing.offsets[gone], padded(spans[gone].bytes));
    }
    placing.put(i, gaps.take(padded(spans[i].bytes)), spans[i].bytes);
    living.push({end(i), i});
  }
  return placing;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<LifeSpan>& spans) {
  const size_t lower_bound = most_bytes_live(spans);
  Placing best = by_time(spans, false);
  const auto consider = [&](Placing other) {
    if (!other.offsets.empty() && other.arena_bytes < best.arena_bytes) best = std::move(other);
  };
  const size_t good_enough = lower_bound + lower_bound / 128;
  if (best.arena_bytes > good_enough) consider(by_time(spans, true));
  // So many pairs that only those with thousands of long lives go without.
  const size_t pairs = 32 * spans.size() * static_cast<size_t>(std::bit_width(spans.size()));
  if (best.arena_bytes > good_enough) consider(by_size(spans, pairs));
  return {std::move(best.offsets), best.arena_bytes, lower_bound};
}

}  // namespace keel
