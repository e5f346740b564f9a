// Row-wise ops of f16 and bf16 by their f32 instructions: some rows at a time are widened, computed
// and rounded once. Any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_WIDENED_ROWS_H
#define KEEL_BACKENDS_COMMON_VECTOR_WIDENED_ROWS_H

#include <memory>

#include "keel/backends/common/row_op.h"

namespace keel::vector {

inline bool is_half(DType dtype) noexcept { return dtype == f16 || dtype == bf16; }

// Returns the op of a node of f16 or bf16 by `op`, which is the same in f32: it takes the node's
// 16-bit operands and results in f32 and the others as they are, has no scratch, and may be given a
// result in the place of operand 0 where both have one shape. REQUIRES that operands and results
// have as many rows as operand 0, of one element or as long as its.
std::unique_ptr<RowOp> widen_rows(const Node& node, std::unique_ptr<RowOp> op);

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_WIDENED_ROWS_H
