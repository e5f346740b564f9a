// The text that people read of tasks: lists, traces and errors. Pure functions; any thread.
#ifndef KEEL_BACKENDS_COMMON_TASK_TEXT_H
#define KEEL_BACKENDS_COMMON_TASK_TEXT_H

#include <string>

#include "keel/backends/common/task_list.h"

namespace keel {

// "matmul": the op, of a fused node that of its anchor. Where it has none, its row-wise op, or else
// the first element-wise one that is not cheap (kCheap), or the first of all.
std::string op_text(const Node& node);
// "hidden1/matmul + add + relu"; "loss = mean", the op behind a name that does not hold it.
std::string title_of(const TaskInfo& info);
// "f32[3, 4], f32[4, 2] -> f32[3, 2]"
std::string types_text(const Node& node);
// Writes one task a line.
std::string describe(const TaskList& list);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_TASK_TEXT_H
