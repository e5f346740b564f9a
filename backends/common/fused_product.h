// What kernels of products share: a product by itself or with the work that the fuser put beside
// it, as read off the node. What follows the product is run by a ProductEpilogue
// (product_epilogue.h).
#ifndef KEEL_BACKENDS_COMMON_FUSED_PRODUCT_H
#define KEEL_BACKENDS_COMMON_FUSED_PRODUCT_H

#include <optional>

#include "keel/backends/common/kernel.h"
#include "keel/graph/ir/graph.h"

namespace keel {

// Whether an epilogue's body only hands on what it is given.
bool is_identity(const Graph& body);

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

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_FUSED_PRODUCT_H
