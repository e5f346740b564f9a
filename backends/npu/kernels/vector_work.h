// Vector work: what element-wise nodes and reductions ask of the modelled device, and into how many
// units of work they can be cut. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_VECTOR_WORK_H
#define KEEL_BACKENDS_NPU_KERNELS_VECTOR_WORK_H

#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/npu/cost/work.h"

namespace keel::npu {

Split tile_work(const Preset& preset, const AnchoredNode& anchored);

// `adds_up`: partial results are merged by adding them.
std::vector<Split> reduction_work(const Preset& preset, const AnchoredNode& fused, bool adds_up);

// Returns what the parts of fused reductions would be as tasks of their own (KernelEntry::apart).
std::vector<std::vector<Split>> reductions_apart(const Preset& preset, const AnchoredNode& fused,
                                                 bool adds_up);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_VECTOR_WORK_H
