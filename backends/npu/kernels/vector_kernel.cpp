#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keel/backends/common/reduce_kernel.h"
#include "keel/backends/common/tile_program.h"
#include "keel/backends/npu/isa/vector_reduce.h"
#include "keel/backends/npu/isa/vector_unit.h"
#include "keel/backends/npu/kernels/kernel_row.h"
#include "keel/backends/npu/kernels/kernels.h"
#include "keel/backends/npu/kernels/vector_work.h"

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

bool is_elementwise(const AnchoredNode& anchored) { return anchored.is_elementwise(); }

Support supports_tiles(const AnchoredNode& anchored) {
  return keel::supports_tiles(anchored.node(), look_up);
}

KernelPlan plan_tiles(const AnchoredNode& anchored, const PlanRequest& request) {
  const Node& node = anchored.node();
  TileProgram program(node, request.saturate_f16 ? look_up_saturating : look_up);
  const int64_t work = program.elements() * static_cast<int64_t>(program.instructions());
  KernelPlan plan;
  plan.block_dim = static_cast<int>(std::clamp<int64_t>(work / kWorkOfABlock, 1, kMostBlocks));
  plan.in_place = program.in_place();
  plan.kind = TaskKind::kAiVectorCore;
  plan.float_status = request.saturate_f16 && computes_f16(node);
  const size_t behind = node.inputs().size() + node.types().size();
  plan.kernel = make_tile_kernel(std::move(program), plan.block_dim,
                                 plan.float_status ? std::optional(behind) : std::nullopt);
  return plan;
}

NodeWork tiles_work(const WorkRequest& r) { return {{}, {tile_work(r.preset, r.anchored)}}; }

Support supports_reduction(const AnchoredNode& node) {
  const Node& reduction = node.anchor();
  if (!reduce_instructions(reduction).complete()) {
    return {false, std::string("no vector instruction for ") + name_of(reduction.input(0).dtype())};
  }
  return supports_reduce(node, look_up, kWorkOfABlock, kMostBlocks);
}

KernelPlan plan_reduction(const AnchoredNode& node, const PlanRequest& request) {
  const bool saturate = request.saturate_f16;
  ReduceUnit unit{reduce_instructions(node.anchor())};
  unit.lookup = saturate ? look_up_saturating : look_up;
  unit.saturate = saturate ? stop_at_largest : nullptr;
  unit.float_status = saturate && node.is_fused() && computes_f16(node.node());
  return plan_reduce(node, unit, kMostBlocks);
}

// The extremes of nothing are infinite by definition, not by overflow. What follows a reduction in
// the same task stops its results by itself.
bool may_overflow(const AnchoredNode& anchored) {
  return !anchored.has_epilogue() && anchored.anchor().input(0).shape().num_elements() != 0;
}

template <bool kAddsUp>
NodeWork reductions_work(const WorkRequest& r) {
  return {{}, reduction_work(r.preset, r.anchored, kAddsUp)};
}

template <bool kAddsUp>
std::vector<Split> apart(const Preset& preset, const AnchoredNode& fused, size_t part) {
  return reduction_apart(preset, fused, part, kAddsUp);
}

// `kAddsUp`: partial results are merged by adding them.
template <bool kAddsUp>
KernelRow reduction(std::vector<std::string_view> ops) {
  return {.ops = std::move(ops),
          .supports = supports_reduction,
          .plan = plan_reduction,
          .work = reductions_work<kAddsUp>,
          .apart = apart<kAddsUp>,
          .saturates_behind = may_overflow,
          .planned = &kPlannedReduction};
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

std::span<const KernelRow> vector_rows() {
  static const KernelRow rows[] = {{.matches = is_elementwise,
                                    .supports = supports_tiles,
                                    .plan = plan_tiles,
                                    .work = tiles_work,
                                    .planned = &kPlannedElements},
                                   reduction<true>({"sum"}),
                                   reduction<false>({"prod", "max", "min"})};
  return rows;
}

}  // namespace keel::npu
