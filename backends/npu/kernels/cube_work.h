// CubeWork: a product's work on the modelled device's cube, or on its vector unit (integers). Pure;
// any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H
#define KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H

#include "keel/backends/npu/kernels/kernel_row.h"

namespace keel::npu {

NodeWork product_work(const WorkRequest& request);
NodeWork integer_product_work(const WorkRequest& request);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H
