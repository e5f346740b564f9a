// Kernels that move, index, draw or choose elements: the same on every backend that works in the
// host's address space. An entry for each op, in the file of its kernel. Results
// do not depend on the number of blocks. Any thread.
#ifndef KEEL_BACKENDS_COMMON_SHARED_KERNELS_H
#define KEEL_BACKENDS_COMMON_SHARED_KERNELS_H

#include <memory>
#include <span>
#include <string_view>

#include "keel/backends/common/range_kernel.h"
#include "keel/core/base/export.h"

namespace keel {

// `most_blocks` caps the blocks of a phase.
struct SharedKernel {
  std::string_view op;
  KernelPlan (*plan)(const Node& node, int most_blocks);
  // Null where the results are not made range by range.
  std::unique_ptr<RangeKernel> (*ranges)(const Node& node, int most_blocks) = nullptr;
  // Null where it takes every node of the op.
  Support (*supports)(const Node& node) = nullptr;
};

// Returns the entry of an op whose results are made range by range.
template <std::unique_ptr<RangeKernel> (*kMake)(const Node&, int),
          TaskKind kKind = TaskKind::kAiVectorCore>
constexpr SharedKernel made_in_ranges(std::string_view op,
                                      Support (*supports)(const Node&) = nullptr) {
  const auto plan = [](const Node& node, int most_blocks) {
    return plan_ranges(kMake(node, most_blocks), kKind);
  };
  return {op, plan, kMake, supports};
}

std::span<const SharedKernel> movement_kernels();   // transpose, slice, pad ...
std::span<const SharedKernel> index_kernels();      // gather, scatter_add, argmax ...
std::span<const SharedKernel> random_kernels();     // uniform, fold_key ...
std::span<const SharedKernel> sort_kernels();       // sort, top_k
std::span<const SharedKernel> scan_kernels();       // cumsum, cumprod
std::span<const SharedKernel> pool_kernels();       // max_pool2d and its gradient
std::span<const SharedKernel> attention_kernels();  // attention and its gradient

// Returns the one for the node's op; null where there is none.
KEEL_API const SharedKernel* find_shared_kernel(const Node& node);
// Says whether there is one, and it takes the node.
KEEL_API Support supports_shared_kernel(const Node& node);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_SHARED_KERNELS_H
