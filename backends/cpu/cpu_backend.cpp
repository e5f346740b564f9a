// cpu: computes in host memory: Eigen for products, oneTBB behind parallel_for, element-wise
// clusters as tile programs.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/host_backend.h"
#include "keel/backends/common/movement_kernels.h"
#include "keel/backends/common/reduce_kernel.h"
#include "keel/backends/common/tile_program.h"
#include "keel/backends/cpu/instructions.h"
#include "keel/backends/cpu/kernels.h"

namespace keel {
namespace cpu {
namespace {

// More blocks than threads even out their speeds; fixed, so that a program is the same for any
// number of threads.
constexpr int kMostBlocks = 16;
constexpr int64_t kInstructionsWorthABlock = 65536;  // elements times instructions

class CpuLibrary final : public KernelLibrary {
 public:
  Support supports(const Node& node) const override {
    if (has_movement_kernel(node)) return {true, ""};
    const AnchoredNode anchored(node);
    if (anchored.is_elementwise()) return supports_tiles(node, find_instruction);
    if (anchored.is_product()) return supports_matmul(anchored);
    if (has_index_kernel(node) || has_random_kernel(node)) return {true, ""};
    if (!is_reduction(anchored.anchor())) {
      return anchored.is_fused() ? Support{false, "no kernel for it"} : supports_softmax(node);
    }
    return supports_reduce(anchored, find_instruction, kInstructionsWorthABlock, kMostBlocks);
  }

  KernelPlan plan(const Node& node, const StateLayouts&) const override {
    if (has_movement_kernel(node)) return plan_movement(node, kMostBlocks);
    const AnchoredNode anchored(node);
    if (anchored.is_elementwise()) return plan_tiles(node);
    if (anchored.is_product()) return plan_matmul(anchored);
    if (has_index_kernel(node)) return plan_index(node, kMostBlocks);
    if (has_random_kernel(node)) return plan_random(node, kMostBlocks);
    if (const Node& reduction = anchored.anchor(); is_reduction(reduction)) {
      const auto instructions = find_reduction(reduction.op_name(), reduction.input(0).dtype());
      return plan_reduce(anchored, {instructions, find_instruction}, kMostBlocks);
    }
    return plan_softmax(node);
  }

  KernelPlan plan_copy(size_t bytes) const override {
    KernelPlan plan;
    plan.kernel = make_copy_kernel(bytes);
    plan.kind = TaskKind::kMemcpy;
    return plan;
  }

  int64_t control_ns(TaskKind) const override { return 0; }

 private:
  static bool is_reduction(const Node& node) {
    return node.inputs().size() == 1 &&
           find_reduction(node.op_name(), node.input(0).dtype()).complete();
  }

  static KernelPlan plan_tiles(const Node& node) {
    TileProgram program(node, find_instruction);
    const int64_t work = program.elements() * static_cast<int64_t>(program.instructions());
    KernelPlan plan;
    plan.block_dim =
        static_cast<int>(std::clamp<int64_t>(work / kInstructionsWorthABlock, 1, kMostBlocks));
    plan.in_place = program.in_place();
    plan.kind = TaskKind::kAiVectorCore;
    plan.kernel = make_tile_kernel(std::move(program), plan.block_dim);
    return plan;
  }
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend() {
  return std::make_unique<HostBackend>("cpu",
                                       "the host's processor: Eigen products, oneTBB threads",
                                       std::make_unique<cpu::CpuLibrary>());
}

}  // namespace keel
