#include "keel/backends/npu/scheduler/step_ranges.h"

#include "keel/core/base/checked.h"

namespace keel::npu {

TaskRange step_range(const TaskList& list) {
  TaskRange range{0, list.tasks.size()};
  if (list.info.sunk) --range.end;  // LOOP_RESET ends the launch
  return range;
}

std::optional<Branches> branches_at(const TaskList& list, size_t at) {
  const Task& choice = list.tasks[at];
  if (choice.jump != Jump::kIfFalse) return std::nullopt;
  const Task& leave = list.tasks[choice.target - 1];
  if (leave.jump != Jump::kAlways) return std::nullopt;
  return Branches{{at + 1, choice.target}, {choice.target, leave.target}};
}

std::optional<Branch> longer_branch(const TaskList& list, const Branches& branches) {
  const auto first = range_ns(list, branches.first), second = range_ns(list, branches.second);
  if (!first || !second) return std::nullopt;
  return *first >= *second ? Branch{branches.first, *first} : Branch{branches.second, *second};
}

std::optional<int64_t> range_ns(const TaskList& list, TaskRange range) {
  int64_t total = 0;
  for (size_t i = range.begin; i < range.end; ++i) {
    const Task& task = list.tasks[i];
    total = checked_add(total, task.device_ns, "device time");
    if (task.jump == Jump::kIfFalse) {
      const auto branches = branches_at(list, i);
      const auto longer = branches ? longer_branch(list, *branches) : std::nullopt;
      if (!longer) return std::nullopt;
      total = checked_add(total, longer->ns, "device time");
      i = branches->second.end - 1;
      continue;
    }
    if (task.jump != Jump::kIfReached) continue;
    const auto body = range_ns(list, {i + 1, task.target});
    if (!body) return std::nullopt;
    const int64_t trip = checked_add(*body, task.device_ns, "device time");
    total = checked_add(total, checked_mul(task.limit, trip, "device time"), "device time");
    i = task.target - 1;
  }
  return total;
}

}  // namespace keel::npu
