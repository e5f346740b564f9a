#include "keel/backends/common/vector/element_kernels.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "keel/backends/common/reduce_kernel.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/common/vector/reductions.h"
#include "keel/backends/common/vector/saturation.h"

namespace keel::vector {
namespace {

// More blocks than threads even out their speeds; fixed, so that a program is the same for any
// number of threads.
constexpr int kMostElementBlocks = 32;
// Elements times passes that keep a host thread busy for ten microseconds. What is fused to a
// reduction counts each instruction as one pass (supports_reduce).
constexpr int64_t kElementWorkOfABlock = 131072;

ReduceInstructions instructions_of(const AnchoredNode& anchored) {
  const Node& reduction = anchored.anchor();
  return find_reduction(reduction.op_name(), reduction.input(0).dtype());
}

VectorInstruction look_up(std::string_view op, DType in, DType out) {
  return find_instruction(op, in, out);
}

VectorInstruction look_up_saturating(std::string_view op, DType in, DType out) {
  return find_instruction(op, in, out, true);
}

// Returns the passes that a node or cluster takes for one element. The program may hold copies that
// no op asks for, one for each output that nothing computes.
int64_t passes_of_an_element(const AnchoredNode& anchored, const TileProgram& program) {
  const Node& node = anchored.node();
  int64_t passes = node.bodies().empty() ? instruction_passes(node.op_name()) : 0;
  for (const Node* inner : anchored.epilogue()) passes += instruction_passes(inner->op_name());
  return std::max(passes, static_cast<int64_t>(program.instructions()));
}

}  // namespace

InstructionLookup instruction_lookup(bool saturate_f16) {
  return saturate_f16 ? look_up_saturating : look_up;
}

bool computes_f16(const Node& node) {
  const auto is_f16 = [](const Type& t) { return t.dtype == f16; };
  if (std::any_of(node.types().begin(), node.types().end(), is_f16)) return true;
  const auto inside = [](const std::shared_ptr<Graph>& body) {
    return std::any_of(body->nodes().begin(), body->nodes().end(), computes_f16);
  };
  return std::any_of(node.bodies().begin(), node.bodies().end(), inside);
}

Support supports_elements(const AnchoredNode& anchored) {
  return supports_tiles(anchored.node(), look_up);
}

KernelPlan plan_elements(const AnchoredNode& anchored, bool saturate_f16) {
  const Node& node = anchored.node();
  TileProgram program(node, instruction_lookup(saturate_f16));
  const int64_t work = program.elements() * passes_of_an_element(anchored, program);
  KernelPlan plan;
  plan.block_dim =
      static_cast<int>(std::clamp<int64_t>(work / kElementWorkOfABlock, 1, kMostElementBlocks));
  plan.in_place = program.in_place();
  plan.kind = TaskKind::kAiVectorCore;
  plan.float_status = saturate_f16 && computes_f16(node);
  const size_t behind = node.inputs().size() + node.types().size();
  plan.kernel = make_tile_kernel(std::move(program), plan.block_dim,
                                 plan.float_status ? std::optional(behind) : std::nullopt);
  return plan;
}

Support supports_reduction(const AnchoredNode& anchored) {
  if (!instructions_of(anchored).complete()) {
    return {false, std::string("no reduction of ") + name_of(anchored.anchor().input(0).dtype())};
  }
  return supports_reduce(anchored, look_up, kElementWorkOfABlock, kMostElementBlocks);
}

KernelPlan plan_reduction(const AnchoredNode& anchored, bool saturate_f16) {
  ReduceUnit unit{instructions_of(anchored)};
  unit.lookup = instruction_lookup(saturate_f16);
  unit.saturate = saturate_f16 ? stop_at_largest : nullptr;
  unit.float_status = saturate_f16 && anchored.is_fused() && computes_f16(anchored.node());
  return plan_reduce(anchored, unit, kMostElementBlocks);
}

}  // namespace keel::vector
