// What people read of tasks: lists, traces and errors. Pure functions; any thread.
#ifndef KEEL_BACKENDS_COMMON_TASK_TEXT_H
#define KEEL_BACKENDS_COMMON_TASK_TEXT_H

#include <string>

#include "keel/backends/common/task_list.h"

namespace keel {

// "matmul", or "fused(cast+div+matmul)".
std::string op_text(const Node& node);
// "f32[3, 4], f32[4, 2] -> f32[3, 2]"
std::string types_text(const Node& node);
// One task a line.
std::string describe(const TaskList& list);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_TASK_TEXT_H
