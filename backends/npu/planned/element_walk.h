// The walk of cores through tiles of element-wise work: a launch of its own, or what follows a
// reduction. Any thread, with a core of its own.
#ifndef KEEL_BACKENDS_NPU_PLANNED_ELEMENT_WALK_H
#define KEEL_BACKENDS_NPU_PLANNED_ELEMENT_WALK_H

#include <vector>

#include "keel/backends/npu/planned/brought_program.h"
#include "keel/backends/npu/scheduler/tile_plan.h"

namespace keel::npu {

// Returns the status bits raised. With two buffers each tile is brought before the one ahead of it
// is computed, so that both are on the core at once.
uint32_t walk_elements(const BroughtProgram& program, Core& core, const TilePlan::Cores& cores,
                       int64_t tile_elements, int buffers, void* const* args,
                       std::vector<WrittenOnce>& written);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PLANNED_ELEMENT_WALK_H
