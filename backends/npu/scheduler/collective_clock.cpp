#include "keel/backends/npu/scheduler/collective_clock.h"

#include <algorithm>

namespace keel::npu {
namespace {

// Calls f(memory) for each operand of the task that lies in memory of a kernel's own: of its
// inputs, or of what it writes.
template <class F>
void each_own_memory(const TaskList& list, size_t task, bool inputs, F f) {
  const Task& t = list.tasks[task];
  const uint32_t first = inputs ? 0 : list.infos[task].inputs;
  const uint32_t last = inputs ? list.infos[task].inputs : t.argument_count;
  for (uint32_t i = first; i < last; ++i) {
    const BufferRef& ref = list.table[list.arguments[t.first_argument + i]];
    if (ref.space == Space::kOwn) f(ref.index);
  }
}

}  // namespace

CollectiveClock::CollectiveClock(const TaskList& list, int64_t begin_ns)
    : list_(list),
      buckets_(list.own_memories.size(), Bucket{begin_ns, begin_ns, 0}),
      waited_ns_(list.tasks.size()),
      free_ns_(begin_ns) {}

int64_t CollectiveClock::begin(size_t task, int64_t now) {
  each_own_memory(list_, task, true, [&](uint32_t memory) {
    const Bucket& bucket = buckets_[memory];
    if (bucket.summed_ns <= now) return;
    waited_ns_[bucket.task] += bucket.summed_ns - now;
    now = bucket.summed_ns;
  });
  return now;
}

void CollectiveClock::end(size_t task, int64_t now) {
  each_own_memory(list_, task, false, [&](uint32_t memory) {
    buckets_[memory].made_ns = std::max(buckets_[memory].made_ns, now);
  });
}

CollectiveClock::Run CollectiveClock::run(size_t task, int64_t takes_ns) {
  Run run{free_ns_, free_ns_};
  each_own_memory(list_, task, true,
                  [&](uint32_t m) { run.begin_ns = std::max(run.begin_ns, buckets_[m].made_ns); });
  run.end_ns = free_ns_ = run.begin_ns + takes_ns;
  last_ = task;
  each_own_memory(list_, task, true, [&](uint32_t memory) {
    buckets_[memory].summed_ns = run.end_ns;
    buckets_[memory].task = task;
  });
  return run;
}

int64_t CollectiveClock::finish(int64_t now) {
  if (free_ns_ <= now) return now;
  waited_ns_[last_] += free_ns_ - now;
  return free_ns_;
}

}  // namespace keel::npu
