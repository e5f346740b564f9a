#include "keel/backends/common/range_kernel.h"

#include <algorithm>
#include <utility>

namespace keel {

RangeKernel::RangeKernel(const Node& node, RangeUnits units)
    : units_(units.units),
      blocks_(static_cast<int>(
          std::clamp<int64_t>(units.blocks, 1, std::max<int64_t>(1, units.units)))),
      workspace_at_(node.inputs().size() + node.types().size()) {}

size_t RangeKernel::workspace_bytes() const {
  return static_cast<size_t>(blocks_) * scratch_bytes();
}

void RangeKernel::run(void* const* args, int phase, int block) const {
  if (phase + 1 < phases()) return check(args);
  const size_t each = scratch_bytes();
  char* scratch = each == 0
                      ? nullptr
                      : static_cast<char*>(args[workspace_at_]) + static_cast<size_t>(block) * each;
  make(args, units_ * block / blocks_, units_ * (block + 1) / blocks_, scratch);
}

int64_t blocks_worth(int64_t elements, int64_t elements_of_a_block, int most) {
  return std::min<int64_t>(elements / elements_of_a_block, most);
}

RangeUnits units_of_elements(const Node& node, int64_t elements_of_a_block, int most_blocks) {
  const int64_t elements = node.type().shape.num_elements();
  return {elements, blocks_worth(elements, elements_of_a_block, most_blocks)};
}

KernelPlan plan_ranges(std::unique_ptr<RangeKernel> kernel, TaskKind kind) {
  KernelPlan plan;
  plan.block_dim = kernel->blocks(kernel->phases() - 1);
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.kind = kind;
  plan.kernel = std::move(kernel);
  return plan;
}

}  // namespace keel
