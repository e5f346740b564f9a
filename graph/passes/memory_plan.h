// plan_memory: places buffers with known life spans in one arena so that no two that live at the
// same time overlap.
#ifndef KEEL_GRAPH_PASSES_MEMORY_PLAN_H
#define KEEL_GRAPH_PASSES_MEMORY_PLAN_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keel {

// Lives from task `first` to task `last`, both included.
struct LifeSpan {
  int64_t first = 0;
  int64_t last = 0;
  size_t bytes = 0;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // one for each span, aligned to Buffer::kAlignment
  size_t arena_bytes = 0;
  size_t lower_bound = 0;  // most bytes live at any one task
};

// Returns the best of three greedy plans, tried until one is within a hundredth of the lower bound:
// in the order of time, from its end, and larger buffers first; the last only as far as it does not
// take time that grows with the square of the spans. The same spans always get the same plan.
MemoryPlan plan_memory(const std::vector<LifeSpan>& spans);

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_MEMORY_PLAN_H
