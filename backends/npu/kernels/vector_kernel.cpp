#include <algorithm>
#include <optional>
#include <utility>

#include "keel/backends/common/reduce_kernel.h"
#include "keel/backends/common/tile_program.h"
#include "keel/backends/npu/isa/vector_reduce.h"
#include "keel/backends/npu/isa/vector_unit.h"
#include "keel/backends/npu/kernels/kernels.h"

namespace keel::npu {
namespace {

constexpr int kMostBlocks = 32;
// Elements times instructions that keep a host thread busy for ten microseconds.
constexpr int64_t kWorkOfABlock = 131072;

VectorInstruction look_up(std::string_view op, DType in, DType out) {
  return find_vector_instruction(op, in, out);
}

VectorInstruction look_up_saturating(std::string_view op, DType in, DType out) {
  return find_vector_instruction(op, in, out, true);
}

ReduceInstructions reduce_instructions(const Node& node) {
  const std::string& op = node.op_name();
  const DType dtype = node.input(0).dtype();
  return {find_reduce_rows(op, dtype), find_reduce_columns(op, dtype),
          find_reduce_columns(op, accumulator_of(dtype)), reduce_identity};
}

}  // namespace

bool computes_f16(const Node& node) {
  const auto is_f16 = [](const Type& t) { return t.dtype == f16; };
  if (std::any_of(node.types().begin(), node.types().end(), is_f16)) return true;
  const auto inside = [](const std::shared_ptr<Graph>& body) {
    return std::any_of(body->nodes().begin(), body->nodes().end(), computes_f16);
  };
  return std::any_of(node.bodies().begin(), node.bodies().end(), inside);
}

Support supports_tiles(const Node& node) { return keel::supports_tiles(node, look_up); }

KernelPlan plan_tiles(const Node& node, bool saturate_f16) {
  TileProgram program(node, saturate_f16 ? look_up_saturating : look_up);
  const int64_t work = program.elements() * static_cast<int64_t>(program.instructions());
  KernelPlan plan;
  plan.block_dim = static_cast<int>(std::clamp<int64_t>(work / kWorkOfABlock, 1, kMostBlocks));
  plan.in_place = program.in_place();
  plan.kind = TaskKind::kAiVectorCore;
  plan.float_status = saturate_f16 && computes_f16(node);
  const size_t behind = node.inputs().size() + node.types().size();
  plan.kernel = make_tile_kernel(std::move(program), plan.block_dim,
                                 plan.float_status ? std::optional(behind) : std::nullopt);
  return plan;
}

Support supports_reduce(const AnchoredNode& node) {
  const Node& reduction = node.anchor();
  const std::string& op = reduction.op_name();
  if (op != "sum" && op != "prod" && op != "max" && op != "min") return {false, "no kernel for it"};
  if (!reduce_instructions(reduction).complete()) {
    return {false, std::string("no vector instruction for ") + name_of(reduction.input(0).dtype())};
  }
  return keel::supports_reduce(node, look_up, kWorkOfABlock, kMostBlocks);
}

KernelPlan plan_reduce(const AnchoredNode& node, bool saturate_f16) {
  ReduceUnit unit{reduce_instructions(node.anchor())};
  unit.lookup = saturate_f16 ? look_up_saturating : look_up;
  unit.saturate = saturate_f16 ? stop_at_largest : nullptr;
  unit.float_status = saturate_f16 && node.is_fused() && computes_f16(node.node());
  return keel::plan_reduce(node, unit, kMostBlocks);
}

}  // namespace keel::npu
