// The gradient of a convolution's weights by transformed tiles. Internal to this folder.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_WEIGHTS_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_WEIGHTS_H

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"
#include "keel/ops/products/winograd.h"

namespace keel {

// As plan_winograd. REQUIRES form.sums_windows.
KernelPlan plan_winograd_weights(const AnchoredNode& node, const WinogradForm& form,
                                 bool saturate_f16);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_WEIGHTS_H
