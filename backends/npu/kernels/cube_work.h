// What products ask of the modelled device: of the cube, or of integers of the vector unit. Pure;
// any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H
#define KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H

#include "keel/backends/npu/kernels/kernel_row.h"

namespace keel::npu {

NodeWork product_work(const WorkRequest& request);
NodeWork integer_product_work(const WorkRequest& request);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H
