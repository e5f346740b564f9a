// ProductEpilogue: what follows a product in its task, run piece by piece of the result while a
// cache has it: element-wise ops as a tile program, then row-wise ones (softmax, its loss and
// gradient). Belongs to the product's kernel; immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCT_EPILOGUE_H
#define KEEL_BACKENDS_COMMON_PRODUCT_EPILOGUE_H

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/prefetch.h"
#include "keel/backends/common/row_op.h"
#include "keel/backends/common/tile_program.h"

namespace keel {

// Returns whether there are instructions for each op of the product's epilogue, if it has one, and
// no more than kMostTileArguments inputs and outputs.
Support supports_epilogue(const AnchoredNode& product, const InstructionLookup& lookup,
                          const RowOpFactory& make_row_op);

class ProductEpilogue {
 public:
  // `columns`: of the matrix that pieces are of, in which the product's elements follow each other.
  // REQUIRES an epilogue that is supported, and with row-wise ops that its rows are those.
  ProductEpilogue(const AnchoredNode& product, const InstructionLookup& lookup,
                  const RowOpFactory& make_row_op, int64_t columns);

  // args: those of the kernel. `values` is the piece of the product, in its dtype, with `stride`
  // elements from row to row: whole rows behind each other where there are row-wise ops. `scratch`
  // is this call's alone. Returns the status bits raised.
  uint32_t run(void* const* args, void* values, const TileRectangle& piece, int64_t stride,
               void* scratch) const;
  // Returns what that scratch has for a piece of so many rows; it is aligned to 64 bytes.
  size_t scratch_bytes(size_t rows) const;

  // Adds what run() reads and writes for `rows` rows of the matrix from `row` on, of what has an
  // element for each of the product's.
  void add_ahead(void* const* args, int64_t row, int64_t rows, PrefetchList& ahead) const;

  // Returns the pairs for the kernel's plan. Operands of the product are read until the last block
  // is done, so there is no pair for these.
  const std::vector<KernelPlan::InPlace>& in_place() const noexcept { return in_place_; }

 private:
  // Row-wise ops that are done together; the numbers of their arguments.
  struct Rows {
    std::unique_ptr<RowOp> op;
    std::vector<size_t> arguments;
  };
  // Says where an argument of the ops is: among the kernel's, or else in rows of the scratch.
  struct Place {
    std::optional<size_t> argument;
    size_t row_bytes = 0;
  };

  // An argument of the kernel that has an element for each of the product's.
  struct Wide {
    size_t argument = 0, row_bytes = 0;
    PrefetchList::Use use = PrefetchList::Use::kRead;
  };

  using Numbers = std::unordered_map<Value, size_t, ValueHash>;

  void add_rows(const std::vector<const Node*>& nodes, const Numbers& numbers,
                const RowOpFactory& make_row_op);
  void find_in_place(const AnchoredNode& product);
  void find_wide(const AnchoredNode& product);
  uint32_t run_rows(void** args, const TileRectangle& piece, int64_t stride) const;

  // Arguments are numbered: the body's inputs, the product first, then what the element-wise ops
  // leave, then what the row-wise ones do.
  std::vector<Place> places_;
  std::optional<TileProgram> program_;  // none where only row-wise ops follow the product
  std::vector<Rows> rows_;
  std::vector<Wide> wide_;
  int64_t columns_;
  bool columns_are_rows_;  // of the program's iteration shape
  size_t element_size_;    // of the product
  size_t product_row_bytes_ = 0;
  std::vector<KernelPlan::InPlace> in_place_;
};

// Returns the plan of a product's kernel, which tells its workspace, status, places and blocks.
template <class ProductKernel>
KernelPlan plan_of(std::unique_ptr<ProductKernel> kernel, std::string reason = "") {
  KernelPlan plan;
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.float_status = kernel->reports_status();
  plan.in_place = kernel->in_place();
  plan.block_dim = kernel->blocks(0);
  plan.kernel = std::move(kernel);
  plan.reason = std::move(reason);
  return plan;
}

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCT_EPILOGUE_H
