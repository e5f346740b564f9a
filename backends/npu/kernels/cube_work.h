// product_work, integer_product_work: the work that a product means for the modelled device: for
// its cube, or for its vector unit, since the cube does not multiply integers. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H
#define KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H

#include "keel/backends/npu/kernels/kernel_entry.h"

namespace keel::npu {

NodeWork product_work(const WorkRequest& request);
NodeWork integer_product_work(const WorkRequest& request);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H
