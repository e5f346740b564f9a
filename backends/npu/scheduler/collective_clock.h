// CollectiveClock: collectives beside the other tasks of a step. They run one after the other on a
// stream of their own: each begins once the last of its values is made, and a task that reads sums
// waits for them. Told the tasks of a step in their order; one thread.
#ifndef KEEL_BACKENDS_NPU_SCHEDULER_COLLECTIVE_CLOCK_H
#define KEEL_BACKENDS_NPU_SCHEDULER_COLLECTIVE_CLOCK_H

#include <cstdint>
#include <vector>

#include "keel/backends/common/task_list.h"

namespace keel::npu {

class CollectiveClock {
 public:
  struct Run {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
  };

  // REQUIRES that the list outlives the clock. The step begins at `begin_ns`.
  explicit CollectiveClock(const TaskList& list, int64_t begin_ns = 0);

  // Returns when a task that is no collective begins which could begin at `now`.
  int64_t begin(size_t task, int64_t now);
  // Says when it has ended.
  void end(size_t task, int64_t now);
  // Returns when a collective runs that takes so long.
  Run run(size_t task, int64_t takes_ns);
  // The last other task of the step ends at `now`: returns when the step does.
  int64_t finish(int64_t now);

  // Returns for how long other tasks waited for a collective.
  int64_t waited_for(size_t task) const { return waited_ns_[task]; }

 private:
  struct Bucket {
    int64_t made_ns = 0;    // when its values are there
    int64_t summed_ns = 0;  // and their sums
    size_t task = 0;        // its collective, once that was reached
  };

  const TaskList& list_;
  std::vector<Bucket> buckets_;     // by memory of the kernels' own
  std::vector<int64_t> waited_ns_;  // by task
  int64_t free_ns_;                 // when the last collective so far ends
  size_t last_ = 0;                 // which that is
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_SCHEDULER_COLLECTIVE_CLOCK_H
