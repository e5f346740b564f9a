#include <algorithm>
#include <string>
#include <utility>

#include "keel/backends/common/reduce_kernel.h"
#include "keel/backends/common/tile_program.h"
#include "keel/backends/cpu/instructions.h"
#include "keel/backends/cpu/kernels.h"

namespace keel::cpu {
namespace {

// More blocks than threads even out their speeds; fixed, so that a program is the same for any
// number of threads.
constexpr int kMostBlocks = 16;
constexpr int64_t kInstructionsWorthABlock = 65536;  // elements times instructions

bool is_elementwise(const AnchoredNode& anchored) { return anchored.is_elementwise(); }

Support supports_elements(const AnchoredNode& anchored) {
  return supports_tiles(anchored.node(), find_instruction);
}

KernelPlan plan_elements(const AnchoredNode& anchored) {
  TileProgram program(anchored.node(), find_instruction);
  const int64_t work = program.elements() * static_cast<int64_t>(program.instructions());
  KernelPlan plan;
  plan.block_dim =
      static_cast<int>(std::clamp<int64_t>(work / kInstructionsWorthABlock, 1, kMostBlocks));
  plan.in_place = program.in_place();
  plan.kind = TaskKind::kAiVectorCore;
  plan.kernel = make_tile_kernel(std::move(program), plan.block_dim);
  return plan;
}

ReduceInstructions instructions_of(const AnchoredNode& anchored) {
  const Node& reduction = anchored.anchor();
  return find_reduction(reduction.op_name(), reduction.input(0).dtype());
}

Support supports_reduction(const AnchoredNode& anchored) {
  if (!instructions_of(anchored).complete()) {
    return {false, std::string("no reduction of ") + name_of(anchored.anchor().input(0).dtype())};
  }
  return supports_reduce(anchored, find_instruction, kInstructionsWorthABlock, kMostBlocks);
}

KernelPlan plan_reduction(const AnchoredNode& anchored) {
  return plan_reduce(anchored, {instructions_of(anchored), find_instruction}, kMostBlocks);
}

}  // namespace

std::span<const KernelRow> vector_rows() {
  static const KernelRow rows[] = {
      {.matches = is_elementwise, .supports = supports_elements, .plan = plan_elements}};
  return rows;
}

std::span<const KernelRow> reduction_rows() {
  static const KernelRow rows[] = {{.ops = {"sum", "prod", "max", "min"},
                                    .supports = supports_reduction,
                                    .plan = plan_reduction}};
  return rows;
}

}  // namespace keel::cpu
