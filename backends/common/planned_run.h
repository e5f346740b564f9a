// PlannedRun: one task carried out the way its device's scheduler planned it, core by core and tile
// by tile, on the memory of a plain run. StrictRunner runs it beside the task's kernel and compares
// the bits. Made with the program; immutable; one thread at a time.
#ifndef KEEL_BACKENDS_COMMON_PLANNED_RUN_H
#define KEEL_BACKENDS_COMMON_PLANNED_RUN_H

#include <memory>
#include <unordered_map>

#include "keel/backends/common/kernel.h"

namespace keel {

class KEEL_API PlannedRun {
 public:
  virtual ~PlannedRun();
  // args as Kernel::run gets them, with outputs in memory of their own that overlaps no input.
  // Throws Error where the plan is wrong: it names the op, the core, the tile and the buffer.
  virtual void run(void* const* args) const = 0;
};

// By the task's kernel; kernels that are not there are not run as planned.
using PlannedRuns = std::unordered_map<const Kernel*, std::shared_ptr<const PlannedRun>>;

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PLANNED_RUN_H
