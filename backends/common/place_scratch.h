// Gives the scratch values of a task list their places in the arena. A plain function; any thread.
#ifndef KEEL_BACKENDS_COMMON_PLACE_SCRATCH_H
#define KEEL_BACKENDS_COMMON_PLACE_SCRATCH_H

#include "keel/backends/common/task_list.h"

namespace keel {

// Sets the offsets of the table's scratch entries from their lives, and what ProgramInfo says of
// scratch. REQUIRES a life for each entry.
void place_scratch(TaskList& list);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PLACE_SCRATCH_H
