// RowOp: ops that work row by row (kRowWise: softmax and its family) as a backend computes them: a
// task of their own, or on the rows that a product leaves in a cache. Immutable once made; run()
// may be called from any number of threads on different rows.
#ifndef KEEL_BACKENDS_COMMON_ROW_OP_H
#define KEEL_BACKENDS_COMMON_ROW_OP_H

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "keel/backends/common/kernel.h"

namespace keel {

class RowOp {
 public:
  virtual ~RowOp();
  // Computes rows [begin, end). args: for each node in turn its inputs, then for each its outputs,
  // where their row 0 is or would be: of input 0 and of outputs only those rows need to be there.
  // Throws Error for what only the data shows (a class id out of range).
  virtual void run(void* const* args, int64_t begin, int64_t end) const = 0;
};

// Makes one for nodes that read the same input 0; null where the backend has none, or none for
// several at once.
using RowOpFactory = std::function<std::unique_ptr<RowOp>(std::span<const Node* const> nodes)>;

// Returns the kernel of one row-wise node in blocks of `rows_of_block` rows.
std::unique_ptr<Kernel> make_row_kernel(const Node& node, std::unique_ptr<RowOp> op,
                                        int64_t rows_of_block);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_ROW_OP_H
