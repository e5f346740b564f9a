// Row views: a gather of one row along the first axis need not copy it. The row lies in one piece,
// so whoever reads the result can read it where it is; all that the task computes is where. The
// lowering keeps the memory of the rows as it was while one is read. In the same way a row that is
// to be put somewhere (written_rows.h) can be made there.
// Pure functions; any thread.
#ifndef KEEL_BACKENDS_COMMON_ROW_VIEW_H
#define KEEL_BACKENDS_COMMON_ROW_VIEW_H

#include "keel/backends/common/kernel.h"
#include "keel/graph/ir/graph.h"

namespace keel {

// Returns whether the node's result is one row of its first input, which begins where kernels want
// their operands to begin.
bool shows_row(const Node& node);

// Returns whether the node is a scatter_add of one row, which begins where kernels want their
// results to begin.
bool writes_row(const Node& node);

// Plans the task that finds where the row begins in the node's first input. Its arguments are that
// input, where it is read, the index and an i64 that gets the byte. Its kernel throws Error for an
// index out of range. It takes no modelled time by itself. REQUIRES shows_row(node) or
// writes_row(node).
KernelPlan plan_row_view(const Node& node);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_ROW_VIEW_H
