// The ranges of tasks that a step goes through: its own, loops and the branches of conds. Pure;
// any thread.
#ifndef KEEL_BACKENDS_NPU_SCHEDULER_STEP_RANGES_H
#define KEEL_BACKENDS_NPU_SCHEDULER_STEP_RANGES_H

#include <cstddef>
#include <cstdint>
#include <optional>

#include "keel/backends/common/task_list.h"

namespace keel::npu {

struct TaskRange {
  size_t begin = 0;
  size_t end = 0;
};

// Returns the tasks of one step: without the test, the end and the reset of a sunk loop's launch,
// which the trace of a step counts once each.
TaskRange step_range(const TaskList& list);

// The two branches of the cond that task `at` begins; nothing where that is no cond but a while,
// which jumps back at its end.
struct Branches {
  TaskRange first, second;
};
std::optional<Branches> branches_at(const TaskList& list, size_t at);

// Returns the device time of a range of tasks, loops by their trip count and conds by their longer
// branch; nothing where data decides how often a loop turns.
std::optional<int64_t> range_ns(const TaskList& list, TaskRange range);

// The branch that takes longer, and its time; nothing where data decides that.
struct Branch {
  TaskRange range;
  int64_t ns = 0;
};
std::optional<Branch> longer_branch(const TaskList& list, const Branches& branches);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_SCHEDULER_STEP_RANGES_H
