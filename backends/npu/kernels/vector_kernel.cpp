// Element-wise work and reductions on the vector unit.
#include <initializer_list>
#include <string_view>
#include <vector>

#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/backends/npu/kernels/vector_work.h"

namespace keel::npu {
namespace {

bool is_elementwise(const AnchoredNode& anchored) { return anchored.is_elementwise(); }

KernelPlan plan_elements(const AnchoredNode& anchored, const PlanRequest& request) {
  return vector::plan_elements(anchored, request.saturate_f16);
}

NodeWork elements_work(const WorkRequest& r) { return {{}, {tile_work(r.preset, r.anchored)}}; }

KernelPlan plan_reduction(const AnchoredNode& anchored, const PlanRequest& request) {
  return vector::plan_reduction(anchored, request.saturate_f16);
}

// The extremes of nothing are infinite by definition, not by overflow. What follows a reduction in
// the same task stops its results by itself.
bool reduction_may_overflow(const AnchoredNode& anchored) {
  return !anchored.has_epilogue() && anchored.anchor().input(0).shape().num_elements() != 0;
}

template <bool kAddsUp>
NodeWork reductions_work(const WorkRequest& r) {
  return {{}, reduction_work(r.preset, r.anchored, kAddsUp)};
}

template <bool kAddsUp>
std::vector<std::vector<Split>> apart(const Preset& preset, const AnchoredNode& fused) {
  return reductions_apart(preset, fused, kAddsUp);
}

// `kAddsUp`: partial results are merged by adding them.
template <bool kAddsUp>
KernelEntry reduction(std::initializer_list<std::string_view> ops) {
  return {.ops = ops,
          .supports = vector::supports_reduction,
          .plan = plan_reduction,
          .work = reductions_work<kAddsUp>,
          .passes = kPassesOfAReduction,
          .apart = apart<kAddsUp>,
          .saturates_behind = reduction_may_overflow,
          .planned = &kPlannedReduction};
}

}  // namespace

std::span<const KernelEntry> vector_entries() {
  static const KernelEntry entries[] = {{.matches = is_elementwise,
                                         .supports = vector::supports_elements,
                                         .plan = plan_elements,
                                         .work = elements_work,
                                         .planned = &kPlannedElements},
                                        reduction<true>({"sum"}),
                                        reduction<false>({"prod", "max", "min"})};
  return entries;
}

}  // namespace keel::npu
