// FusedReduction: a reduction by itself or with the element-wise work that the fuser put beside it,
// as read from the node. What kernels, prices and plans of reductions share. Valid as long as the
// node is; immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_FUSED_REDUCTION_H
#define KEEL_BACKENDS_COMMON_FUSED_REDUCTION_H

#include <memory>

#include "keel/backends/common/kernel.h"
#include "keel/backends/common/tile_program.h"
#include "keel/graph/ir/graph.h"

namespace keel {

class FusedReduction {
 public:
  // Any node that is not fused counts as its own reduction.
  explicit FusedReduction(const Node& node);

  bool is_fused() const noexcept { return reduction_ != &node_; }
  // Its input is what is reduced, whether it is stored or computed on the way.
  const Node& reduction() const noexcept { return *reduction_; }
  const Node& node() const noexcept { return node_; }
  // The node's inputs that the prologue needs; behind them come those of the epilogue.
  size_t reduction_inputs() const noexcept;
  // Whether what is reduced is computed, and what computes it: an element-wise graph of one output
  // with as many elements, in the same order.
  bool has_prologue() const;
  std::unique_ptr<Graph> prologue() const;
  // Null where the node's output is the reduction itself.
  const Graph* epilogue() const noexcept { return epilogue_; }

 private:
  const Node& node_;
  const Node* reduction_;
  const Graph* epilogue_ = nullptr;
};

// More would not fit into what kernels keep on the stack.
inline constexpr size_t kMostReductionArguments = 48;
// Whether the lookup has an instruction for each op of the prologue and the epilogue, and whether
// the reduction keeps as many of at most `most_blocks` blocks busy as the prologue would by itself,
// where `work_of_a_block` elements times instructions are worth one.
Support supports_beside(const FusedReduction& fused, const InstructionLookup& lookup,
                        int64_t work_of_a_block, int most_blocks);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_FUSED_REDUCTION_H
