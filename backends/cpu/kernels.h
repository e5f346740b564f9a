// KernelEntry: everything that the cpu backend knows of one kind of node: whether it runs it and
// with which kernel. The entries stand in the files of their kernels. Immutable; any thread.
#ifndef KEEL_BACKENDS_CPU_KERNELS_H
#define KEEL_BACKENDS_CPU_KERNELS_H

#include <span>
#include <string_view>
#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"

namespace keel::cpu {

struct KernelEntry {
  std::vector<std::string_view> ops;  // of the anchor; none: `matches` says it all
  bool (*matches)(const AnchoredNode&) = nullptr;
  // Says whether the kernel takes a node that the entry matches.
  Support (*supports)(const AnchoredNode&) = nullptr;
  // REQUIRES that it is supported.
  KernelPlan (*plan)(const AnchoredNode&) = nullptr;
};

// Returns an entry for each kind, by file. The first that matches counts.
std::span<const KernelEntry> vector_entries();   // element-wise work, reductions, softmax
std::span<const KernelEntry> product_entries();  // matmul and convolutions, by Eigen or the cube

// Null where no entry matches.
const KernelEntry* find_entry(const AnchoredNode& anchored);

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_KERNELS_H
