// The cpu backend's kernels beside tile programs and reductions: matrix products and softmax rows.
#ifndef KEEL_BACKENDS_CPU_KERNELS_H
#define KEEL_BACKENDS_CPU_KERNELS_H

#include <memory>
#include <span>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/row_op.h"

namespace keel::cpu {

// matmul of any number dtype, batched and transposed as its attributes say; by Eigen on tiles whose
// size follows from the shape alone, so that the result does not depend on the number of threads.
Support supports_matmul(const AnchoredNode& node);
KernelPlan plan_matmul(const AnchoredNode& node);

// softmax, log_softmax, softmax_cross_entropy and its gradient, in f32 and f64 with class ids as
// targets; the rest decomposes.
Support supports_softmax(const Node& node);
KernelPlan plan_softmax(const Node& node);
// The same on rows that a product leaves: a RowOpFactory.
std::unique_ptr<RowOp> make_row_op(std::span<const Node* const> nodes);

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_KERNELS_H
