// The work that attention and its gradient mean for the modelled device: the cube multiplies blocks
// of queries and keys, the vector unit makes weights of the scores while they are on the core, and
// neither scores nor weights go through memory. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_ATTENTION_WORK_H
#define KEEL_BACKENDS_NPU_KERNELS_ATTENTION_WORK_H

#include "keel/backends/npu/kernels/kernel_entry.h"

namespace keel::npu {

NodeWork attention_work(const WorkRequest& request);
NodeWork attention_gradient_work(const WorkRequest& request);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_ATTENTION_WORK_H
