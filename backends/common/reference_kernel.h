// The kernel of a node whose backend has none of its own: the op's reference function, one block in
// host memory. What ref is made of, and what a young backend may begin with. Any thread.
#ifndef KEEL_BACKENDS_COMMON_REFERENCE_KERNEL_H
#define KEEL_BACKENDS_COMMON_REFERENCE_KERNEL_H

#include "keel/backends/common/kernel.h"

namespace keel {

// Every op has a reference but sources, control and fused nodes.
KEEL_API Support supports_reference(const Node& node);
// REQUIRES that it is supported, and that the task's memory may be touched by the host.
KEEL_API KernelPlan plan_reference(const Node& node);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_REFERENCE_KERNEL_H
