// Convolutions by transformed tiles as kernels, for any backend that works in the host's address
// space: the products that have a WinogradForm, with what is fused behind them. Operands of
// 16 bits are multiplied in f32. The op alone decides the form, so results have the same bits fused
// or not, for any number of threads; only whether bf16 is computed so depends on the host's cube
// kernels, which are a part of the host ISA's name. Any thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_KERNEL_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_KERNEL_H

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"
#include "keel/core/base/export.h"
#include "keel/core/device/backend.h"

namespace keel {

// Returns whether the node is a product that is computed so. Of bf16 it is not where the host has
// matrix tiles: these multiply all terms in less time than f32 the few of the transformed ones.
KEEL_API bool has_winograd_form(const AnchoredNode& node);
// Says whether it takes what is fused to it. REQUIRES has_winograd_form.
KEEL_API Support supports_winograd(const AnchoredNode& node);
// REQUIRES supports_winograd. `saturate_f16`: f16 results stop at +-65504.
KEEL_API KernelPlan plan_winograd(const AnchoredNode& node, bool saturate_f16);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_KERNEL_H
