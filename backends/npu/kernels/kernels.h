// Kernels that several entries of the NPU share (kernel_entry.h). Each is bound to shapes when a
// program is compiled.
#ifndef KEEL_BACKENDS_NPU_KERNELS_KERNELS_H
#define KEEL_BACKENDS_NPU_KERNELS_KERNELS_H

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"

namespace keel::npu {

// matmul of integers, which the cube does not multiply: on the vector unit.
Support supports_integer_product(const AnchoredNode& fused);
KernelPlan plan_integer_product(const AnchoredNode& product);

// The gradient of a convolution for its images, with a stride (ops/products/product_phases.h).
bool has_phases(const AnchoredNode& fused);
// REQUIRE has_phases.
Support supports_phases(const AnchoredNode& fused);
KernelPlan plan_phases(const AnchoredNode& fused, bool saturate_f16);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_KERNELS_H
