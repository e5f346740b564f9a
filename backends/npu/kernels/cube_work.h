// product_work, phased_work, integer_product_work: the work that a product means for the modelled
// device: for its cube, or for its vector unit, since the cube does not multiply integers. Pure;
// any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H
#define KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H

#include "keel/backends/npu/kernels/kernel_entry.h"

namespace keel::npu {

NodeWork product_work(const WorkRequest& request);
NodeWork phased_work(const WorkRequest& request);
NodeWork integer_product_work(const WorkRequest& request);

// How the vector unit multiplies integers: matrices of m x n, of which `rows` x `columns` are
// summed up at once. A unit of the work is one row of that.
struct IntegerProductTiles {
  int64_t batch = 0, m = 0, n = 0;
  int64_t rows = 1, columns = 1;
};
IntegerProductTiles integer_product_tiles(const Preset& preset, const AnchoredNode& product);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_CUBE_WORK_H
