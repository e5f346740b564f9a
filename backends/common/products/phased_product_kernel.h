// The gradient of a convolution for its images, with a stride (ops/products/product_phases.h), as
// one kernel of the cube: for some lines of the images at a time, the products of all phases, whose
// rows go to their places among each other's. Immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_PHASED_PRODUCT_KERNEL_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_PHASED_PRODUCT_KERNEL_H

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"
#include "keel/core/device/backend.h"

namespace keel {

bool has_phases(const AnchoredNode& fused);
// REQUIRE has_phases.
Support supports_phases(const AnchoredNode& fused);
KernelPlan plan_phases(const AnchoredNode& fused, bool saturate_f16);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_PHASED_PRODUCT_KERNEL_H
