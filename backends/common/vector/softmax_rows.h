// Softmax and its family as kernels: softmax, log_softmax, softmax_cross_entropy and its gradient,
// with class ids as targets: in f32 and f64 as tasks of their own or on the rows that another
// kernel makes, in f16 and bf16 as tasks of their own, computed in f32 and rounded once. In these
// dtypes alone the gradients of softmax and log_softmax, too, which are composed in f32 and f64.
// Any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_ROWS_H
#define KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_ROWS_H

#include <memory>
#include <span>
#include <string_view>

#include "keel/backends/common/kernel.h"
#include "keel/backends/common/row_op.h"

namespace keel::vector {

// Returns the names of the ops, for the entries of backends.
KEEL_API std::span<const std::string_view> softmax_ops();

KEEL_API Support supports_softmax(const Node& node);
// REQUIRES supports_softmax.
KEEL_API KernelPlan plan_softmax(const Node& node);

// Returns what computes the rows of a node that is a task of its own. REQUIRES supports_softmax.
KEEL_API std::unique_ptr<RowOp> make_softmax_op(const Node& node);

// A RowOpFactory: null for f16 and bf16, as rows behind a product have no variant that saturates. A
// loss and its gradient go together.
KEEL_API std::unique_ptr<RowOp> make_softmax_rows(std::span<const Node* const> nodes);

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_SOFTMAX_ROWS_H
