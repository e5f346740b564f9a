// AnchoredNode: a node as kernels, plans and prices see it, fused or by itself. The anchor is the
// product or reduction in its body, the first where a reduction has siblings; any other node is its
// own anchor. Made once where a node is judged or planned, and handed on. Valid as long as the node
// is; immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_ANCHORED_NODE_H
#define KEEL_BACKENDS_COMMON_ANCHORED_NODE_H

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/ops/products/product_matrices.h"

namespace keel {

class KEEL_API AnchoredNode {
 public:
  AnchoredNode(const Node& node);  // NOLINT(google-explicit-constructor): every node is one

  const Node& node() const noexcept { return node_; }
  // Its inputs are the operands as the anchor takes them, stored or computed on the way.
  const Node& anchor() const noexcept { return *anchor_; }
  bool is_product() const noexcept { return anchor_->has(kProduct); }
  // Returns how many reductions are computed over one read of what they share: 1 but for siblings.
  size_t reductions() const noexcept { return 1 + parts_.siblings.size(); }
  // Returns whether the node computes each element of its results from those at its place, and does
  // no more: an element-wise op, or a body of such.
  bool is_elementwise() const noexcept;
  // Returns why a product cannot be computed as matrices; empty where it can.
  const std::string& why_no_matrices() const noexcept { return why_no_matrices_; }
  // Returns the matrices that a product multiplies. REQUIRES that there are some.
  const ProductMatrices& matrices() const { return matrices_.value(); }
  // Returns whether something is fused to a product or reduction.
  bool is_fused() const noexcept { return &node_ != anchor_; }
  FusedBody::Part part_of(const Value& inner) const { return parts_.part_of(inner); }

  // ---- the prologue
  //
  // Operands are those of the anchor; of reductions that are siblings, what each of them reduces.

  // Nodes of the body that compute what the anchors read.
  const std::vector<const Node*>& prologue() const noexcept { return parts_.prologue; }
  // Returns the numbers of the node's inputs that the anchors and their prologue read, rising.
  const std::vector<size_t>& prologue_inputs() const noexcept { return prologue_inputs_; }
  // Returns whether ops come between operand i as stored and as the anchor takes it.
  bool has_prologue(size_t operand) const;
  // Returns how many operands of reductions a prologue computes.
  size_t computed_operands() const;
  // Returns whether the one op in between is a cast of operand i as stored.
  bool is_cast(size_t operand) const;
  // Returns the number of the node's input that operand i is made from; nothing where it is made
  // from several.
  std::optional<size_t> source(size_t operand) const;
  // That input. REQUIRES a source.
  Value stored(size_t operand) const { return node_.input(source(operand).value()); }
  // Returns the node's input with the numbers of the rows that make operand i, where they are
  // gathered.
  std::optional<size_t> row_numbers_of(size_t operand) const;
  // Returns what computes the operands of reductions, as a graph: from the prologue's inputs to one
  // output for each operand with a prologue, with as many elements, in the same order, as the
  // reduction reads. REQUIRES that there is such an operand.
  std::unique_ptr<Graph> prologue_graph() const;

  // ---- the epilogue

  // Returns whether anything follows the anchor's result in the body.
  bool has_epilogue() const noexcept { return has_epilogue_; }
  // Element-wise nodes and views of the body, then row-wise ones.
  const std::vector<const Node*>& epilogue() const noexcept { return parts_.epilogue; }
  const std::vector<const Node*>& row_wise() const noexcept { return parts_.row_wise; }
  // Returns the numbers of the node's inputs that the epilogue reads, rising.
  const std::vector<size_t>& epilogue_inputs() const noexcept { return epilogue_inputs_; }

  // Returns the number of the node's input or output that a value of the body is, where it is one.
  std::optional<size_t> input_number(const Value& inner) const;
  std::optional<size_t> output_number(const Value& inner) const;

 private:
  struct Source {
    std::optional<size_t> stored, row_numbers;
  };

  const Graph& body() const { return *node_.bodies()[0]; }
  void find_anchor();
  const Value& operand(size_t i) const;
  Source source_of(const Value& operand) const;
  void find_inputs();

  const Node& node_;
  const Node* anchor_;
  std::string why_no_matrices_;
  std::optional<ProductMatrices> matrices_;
  FusedBody parts_;
  bool has_epilogue_ = false;
  std::vector<Source> sources_;  // by operand; none where nothing is fused
  std::vector<size_t> prologue_inputs_, epilogue_inputs_;
};

// The element-wise part of what follows an anchor, as a graph of its own.
struct EpilogueGraph {
  // REQUIRES an epilogue.
  explicit EpilogueGraph(const AnchoredNode& node);

  // Its inputs are the anchor's result, then those of the epilogue in their order; null where only
  // row-wise ops follow.
  std::unique_ptr<Graph> graph;
  // Paired with its outputs: what leaves, with the number of the node's output, then what only
  // rows read.
  struct Output {
    Value inner;
    std::optional<size_t> number;
  };
  std::vector<Output> outputs;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_ANCHORED_NODE_H
