// Kernels that move or index elements without computing with them, the same on every backend that
// works in the host's address space: transpose, broadcast_to, slice, pad, concat, gather,
// scatter_add, one_hot, iota, argmax, sort, top_k, and the random ops. Results do not depend on the
// number of blocks.
#ifndef KEEL_BACKENDS_COMMON_MOVEMENT_KERNELS_H
#define KEEL_BACKENDS_COMMON_MOVEMENT_KERNELS_H

#include "keel/backends/common/kernel.h"

namespace keel {

// Whether plan_movement knows the node's op.
bool has_movement_kernel(const Node& node);

// REQUIRES has_movement_kernel(node). `most_blocks` caps the number of blocks.
KernelPlan plan_movement(const Node& node, int most_blocks);

// The same for gather, scatter_add, one_hot, iota, argmax, sort, top_k; and for the random ops.
bool has_index_kernel(const Node& node);
KernelPlan plan_index(const Node& node, int most_blocks);
// Of those the ones that bring elements in order.
bool has_sort_kernel(const Node& node);
KernelPlan plan_sort(const Node& node, int most_blocks);
bool has_random_kernel(const Node& node);
KernelPlan plan_random(const Node& node, int most_blocks);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_MOVEMENT_KERNELS_H
