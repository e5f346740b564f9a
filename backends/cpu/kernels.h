// KernelRow: everything that the cpu backend knows of one kind of node: whether it runs it and with
// which kernel. The rows stand in the files of their kernels. Immutable; any thread.
#ifndef KEEL_BACKENDS_CPU_KERNELS_H
#define KEEL_BACKENDS_CPU_KERNELS_H

#include <span>
#include <string_view>
#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"

namespace keel::cpu {

struct KernelRow {
  std::vector<std::string_view> ops;  // of the anchor; none: `matches` says it all
  bool (*matches)(const AnchoredNode&) = nullptr;
  // Says whether the kernel takes a node that the row matches.
  Support (*supports)(const AnchoredNode&) = nullptr;
  // REQUIRES that it is supported.
  KernelPlan (*plan)(const AnchoredNode&) = nullptr;
};

// Returns a row for each kind, by file. The first that matches counts.
std::span<const KernelRow> vector_rows();   // element-wise work, reductions, softmax
std::span<const KernelRow> product_rows();  // matmul and convolutions, by Eigen on tiles

// Null where no row matches.
const KernelRow* find_row(const AnchoredNode& anchored);

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_KERNELS_H
