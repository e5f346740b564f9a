#include "keel/backends/common/place_scratch.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "keel/graph/passes/memory_plan.h"

namespace keel {
namespace {

// Names the task at which most bytes live, for who runs out of memory.
void name_peak(const std::vector<LifeSpan>& spans, TaskList& list) {
  if (spans.empty()) return;
  std::vector<int64_t> change(list.tasks.size() + 1);
  for (const LifeSpan& s : spans) {
    change[static_cast<size_t>(s.first)] += static_cast<int64_t>(s.bytes);
    change[static_cast<size_t>(s.last) + 1] -= static_cast<int64_t>(s.bytes);
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  const auto peak =
      static_cast<size_t>(std::max_element(change.begin(), change.end() - 1) - change.begin());
  const TaskInfo& info = list.infos[peak];
  list.info.scratch_peak = "task " + std::to_string(peak) + " (" + info.name + ")";
  list.info.scratch_peak_site = info.site;
}

}  // namespace

void place_scratch(TaskList& list) {
  std::vector<LifeSpan> spans;
  std::vector<uint32_t> which;
  for (uint32_t i = 0; i < list.table.size(); ++i) {
    const EntryLife& life = list.lives[i];
    if (list.table[i].space != Space::kScratch || life.first < 0) continue;
    spans.push_back({life.first, life.last, list.table[i].bytes});
    which.push_back(i);
  }
  const MemoryPlan plan = plan_memory(spans);
  for (size_t i = 0; i < which.size(); ++i) list.table[which[i]].offset = plan.offsets[i];
  list.info.scratch_bytes = plan.arena_bytes;
  list.info.scratch_lower_bound = plan.lower_bound;
  name_peak(spans, list);
}

}  // namespace keel
