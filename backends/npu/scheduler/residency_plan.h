// The plan of residency: what of each task's operands L2 holds from the tasks before it, and what
// of its results never goes to memory, when a step follows its like. It follows from the task list,
// the size of L2 and what each task moves alone. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_SCHEDULER_RESIDENCY_PLAN_H
#define KEEL_BACKENDS_NPU_SCHEDULER_RESIDENCY_PLAN_H

#include <cstdint>
#include <vector>

#include "keel/backends/common/task_list.h"
#include "keel/backends/npu/cost/work.h"

namespace keel::npu {

// Bytes that a task of the cores reads from and writes to memory, each once. A buffer that has more
// is read or written in part, as a table by its rows.
struct TaskTraffic {
  bool of_cores = false;
  uint64_t read = 0, written = 0;
};

// One for each task; shares before what a launch itself has no room for (set_residency).
std::vector<Residency> plan_residency(const TaskList& list, const std::vector<TaskTraffic>& traffic,
                                      uint64_t l2_bytes);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_SCHEDULER_RESIDENCY_PLAN_H
