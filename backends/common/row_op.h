// RowOp: ops that work row by row (kRowWise: softmax and its family) as a backend computes them: a
// task of their own, or on the rows that a product leaves in a cache. Immutable once made; run()
// may be called from any number of threads on different rows.
#ifndef KEEL_BACKENDS_COMMON_ROW_OP_H
#define KEEL_BACKENDS_COMMON_ROW_OP_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "keel/backends/common/kernel.h"

namespace keel {

class RowOp {
 public:
  virtual ~RowOp();
  // Returns the bytes that a call of run() for at most so many rows works in besides its arguments.
  virtual size_t scratch_bytes(int64_t rows) const;
  // Computes rows [begin, end). args: for each node in turn its inputs, then for each its outputs,
  // where their row 0 is or would be: of input 0 and of outputs only those rows need to be there.
  // `scratch` is this call's alone, aligned to 64 bytes; null where scratch_bytes() are none.
  // Throws Error for what only the data shows (a class id out of range).
  virtual void run(void* const* args, int64_t begin, int64_t end, void* scratch) const = 0;
};

// Makes one, without scratch, for nodes that read the same input 0; null where the backend has
// none, or none for several at once.
using RowOpFactory = std::function<std::unique_ptr<RowOp>(std::span<const Node* const> nodes)>;

// Returns the plan of one row-wise node's kernel in blocks of `rows_of_block` rows, each with
// scratch of its own in the workspace.
KernelPlan plan_row_kernel(const Node& node, std::unique_ptr<RowOp> op, int64_t rows_of_block);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_ROW_OP_H
