// What kernels of products share: a product by itself or with the element-wise work that the fuser
// put beside it. FusedProduct reads the node; ProductEpilogue runs what follows the product, piece
// by piece of the result. Both belong to a kernel and are immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_FUSED_PRODUCT_H
#define KEEL_BACKENDS_COMMON_FUSED_PRODUCT_H

#include <optional>
#include <vector>

#include "keel/backends/common/kernel.h"
#include "keel/backends/common/tile_program.h"
#include "keel/graph/ir/graph.h"

namespace keel {

// Whether a node is a product, by itself or fused.
bool is_product(const Node& node);

// Valid as long as the node is. Any node that is not fused counts as its own product.
class FusedProduct {
 public:
  explicit FusedProduct(const Node& node);

  // Its inputs are the operands as multiplied; the node's first inputs are the operands as stored,
  // then the numbers of rows that are gathered.
  const Node& product() const noexcept { return *product_; }
  const Node& node() const noexcept { return node_; }
  size_t operands() const noexcept { return product_->inputs().size(); }
  // The node's inputs that the product needs; behind them come those of the epilogue.
  size_t product_inputs() const noexcept;
  // Whether element-wise ops come between operand i as stored and as multiplied.
  bool has_load(size_t operand) const;
  // The node's input with the numbers of the rows that make operand i, where they are gathered.
  std::optional<size_t> rows_of(size_t operand) const;
  // Null where the node's output is the product itself.
  const Graph* epilogue() const noexcept { return epilogue_; }

 private:
  const Node& node_;
  const Node* product_;
  const Graph* epilogue_ = nullptr;
};

// More would not fit into what ProductEpilogue::run keeps on the stack.
inline constexpr size_t kMostEpilogueArguments = 48;
// Whether the lookup has an instruction for each op of the epilogue, if there is one.
Support supports_epilogue(const FusedProduct& product, const InstructionLookup& lookup);

class ProductEpilogue {
 public:
  // REQUIRES an epilogue that is supported.
  ProductEpilogue(const FusedProduct& product, const InstructionLookup& lookup);

  // args: those of the kernel. `values` is the piece of the product, in its dtype, with `stride`
  // elements from row to row. Returns the status bits raised.
  uint32_t run(void* const* args, void* values, const TileRectangle& piece, int64_t stride) const;
  // For the kernel's plan: operands are read until the last block is done, so never these.
  const std::vector<KernelPlan::InPlace>& in_place() const noexcept { return in_place_; }

 private:
  TileProgram program_;
  size_t before_;     // of the kernel's arguments: the product's inputs
  size_t arguments_;  // of the program, the product included
  std::vector<KernelPlan::InPlace> in_place_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_FUSED_PRODUCT_H
