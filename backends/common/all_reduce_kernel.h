// The kernel that sums a bucket over the ranks of a group (graph/ir/all_reduce_attributes.h), on
// every backend that works in the host's address space. The sum takes place in memory that the
// group made for it, where the values of a bucket lie side by side: the lowering has them computed
// there. Any thread; the kernel's plan keeps the group.
#ifndef KEEL_BACKENDS_COMMON_ALL_REDUCE_KERNEL_H
#define KEEL_BACKENDS_COMMON_ALL_REDUCE_KERNEL_H

#include <cstdint>

#include "keel/backends/common/kernel.h"

namespace keel {

// Makes the bucket's reduction, which all ranks do together. REQUIRES all_reduce_of(node). Throws
// Error for a node whose group is not known, and RankLost where the ranks do not make the same.
KernelPlan plan_all_reduce(const Node& node);

// Returns the bytes of a bucket: of its values, and of what lies between them.
int64_t bucket_bytes(const Node& node);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_ALL_REDUCE_KERNEL_H
