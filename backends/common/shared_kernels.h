// Kernels that move, index or draw elements without computing with them: the same on every backend
// that works in the host's address space. A row for each op, in the file of its kernel. Results do
// not depend on the number of blocks. Any thread.
#ifndef KEEL_BACKENDS_COMMON_SHARED_KERNELS_H
#define KEEL_BACKENDS_COMMON_SHARED_KERNELS_H

#include <span>
#include <string_view>

#include "keel/backends/common/kernel.h"

namespace keel {

struct SharedKernel {
  std::string_view op;
  KernelPlan (*plan)(const Node& node,
                     int most_blocks);  // `most_blocks` caps the blocks of a phase
};

std::span<const SharedKernel> movement_kernels();  // transpose, slice, pad ...
std::span<const SharedKernel> index_kernels();     // gather, scatter_add, argmax ...
std::span<const SharedKernel> random_kernels();    // uniform, fold_key ...
std::span<const SharedKernel> sort_kernels();      // sort, top_k

// Returns the one for the node's op; null where there is none.
const SharedKernel* find_shared_kernel(const Node& node);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_SHARED_KERNELS_H
