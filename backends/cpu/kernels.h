// KernelRow: everything that the cpu backend knows of one kind of node: whether it runs it and with
// which kernel. The rows stand in the files of their kernels. Immutable; any thread.
#ifndef KEEL_BACKENDS_CPU_KERNELS_H
#define KEEL_BACKENDS_CPU_KERNELS_H

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/row_op.h"

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
std::span<const KernelRow> vector_rows();     // element-wise work, as tile programs
std::span<const KernelRow> product_rows();    // matmul and convolutions, by Eigen on tiles
std::span<const KernelRow> reduction_rows();  // sum, prod, max, min
std::span<const KernelRow> softmax_rows();

// Null where no row matches.
const KernelRow* find_row(const AnchoredNode& anchored);

// softmax, log_softmax, softmax_cross_entropy and its gradient, in f32 and f64 with class ids as
// targets, on rows that a product leaves: a RowOpFactory.
std::unique_ptr<RowOp> make_row_op(std::span<const Node* const> nodes);

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_KERNELS_H
