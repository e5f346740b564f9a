// Products as kernels of the cube (common/cube/cube.h), with what is fused before and behind them.
// Immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_CUBE_KERNEL_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_CUBE_KERNEL_H

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/products/shared_epilogues.h"
#include "keel/core/device/backend.h"

namespace keel {

struct PlanRequest {
  const StateLayouts& layouts;
  SharedEpilogues& epilogues;
  bool saturate_f16 = false;  // f16 results stop at +-65504 instead of becoming infinite
};

// Says whether the cube computes a matmul, a convolution or a gradient of one as it is fused.
Support supports_cube(const AnchoredNode& fused);
// REQUIRES supports_cube.
KernelPlan plan_cube_kernel(const AnchoredNode& node, const PlanRequest& request);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_CUBE_KERNEL_H
