#include "keel/backends/common/fused_reduction.h"

#include <string>

#include "keel/backends/common/fused_product.h"
#include "keel/backends/common/reduce_kernel.h"
#include "keel/backends/common/uses.h"
#include "keel/graph/passes/cloner.h"

namespace keel {
namespace {

Support fits_the_stack(const Graph& body) {
  const size_t arguments = body.inputs().size() + body.outputs().size();
  if (arguments <= kMostReductionArguments) return {true, ""};
  return {false, std::to_string(arguments) + " inputs and outputs, more than " +
                     std::to_string(kMostReductionArguments)};
}

Support supports_part(const Graph& body, const InstructionLookup& lookup) {
  const Support support = fits_the_stack(body);
  return support.supported ? supports_tiles(body, lookup) : support;
}

}  // namespace

FusedReduction::FusedReduction(const Node& node) : node_(node), reduction_(&node) {
  if (node.op_name() != "fused_reduction") return;
  reduction_ = &node.bodies()[0]->outputs()[0].node();
  if (!is_identity(*node.bodies()[1])) epilogue_ = node.bodies()[1].get();
}

size_t FusedReduction::reduction_inputs() const noexcept {
  return is_fused() ? node_.bodies()[0]->inputs().size() : 1;
}

bool FusedReduction::has_prologue() const {
  return is_fused() && root_of(reduction_->input(0)).node().op_name() != "input";
}

std::unique_ptr<Graph> FusedReduction::prologue() const {
  const Graph& body = *node_.bodies()[0];
  auto result = std::make_unique<Graph>(body.ops());
  Cloner cloner(body, *result);
  cloner.clone_inputs();
  const Value last = root_of(reduction_->input(0));
  for (const Node& inner : body.nodes()) {
    if (inner.id() <= last.node_id() && inner.op_name() != "input") cloner.clone(inner);
  }
  result->set_outputs({cloner(last)});
  return result;
}

Support supports_beside(const FusedReduction& fused, const InstructionLookup& lookup,
                        int64_t work_of_a_block, int most_blocks) {
  if (fused.epilogue() != nullptr) {
    if (Support s = supports_part(*fused.epilogue(), lookup); !s.supported) return s;
  }
  if (!fused.has_prologue()) return {true, ""};
  const std::unique_ptr<Graph> prologue = fused.prologue();
  if (Support s = supports_part(*prologue, lookup); !s.supported) return s;
  int64_t instructions = 0;
  for (const Node& inner : prologue->nodes()) {
    if (!inner.has(kSource | kView | kMovement)) ++instructions;
  }
  const int64_t work =
      fused.reduction().input(0).shape().num_elements() * std::max<int64_t>(1, instructions);
  const int blocks = reduce_blocks(fused.reduction(), most_blocks);
  if (blocks == 1 && work >= 2 * work_of_a_block) {
    return {false, "the reduction is one block, what it would compute first is worth " +
                       std::to_string(work / work_of_a_block)};
  }
  return {true, ""};
}

}  // namespace keel
