// matmul of integers, which the cube does not multiply: on the vector unit. Bound to shapes when a
// program is compiled. Immutable; any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_INTEGER_PRODUCT_KERNEL_H
#define KEEL_BACKENDS_NPU_KERNELS_INTEGER_PRODUCT_KERNEL_H

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"

namespace keel::npu {

Support supports_integer_product(const AnchoredNode& fused);
KernelPlan plan_integer_product(const AnchoredNode& product);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_INTEGER_PRODUCT_KERNEL_H
