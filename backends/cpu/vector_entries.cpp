// Everything but products: the kernels of the vector library.
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/backends/cpu/kernels.h"

namespace keel::cpu {
namespace {

bool is_elementwise(const AnchoredNode& anchored) { return anchored.is_elementwise(); }

KernelPlan plan_elements(const AnchoredNode& anchored) { return vector::plan_elements(anchored); }

KernelPlan plan_reduction(const AnchoredNode& anchored) { return vector::plan_reduction(anchored); }

Support supports_softmax(const AnchoredNode& anchored) {
  return vector::supports_softmax(anchored.node());
}

KernelPlan plan_softmax(const AnchoredNode& anchored) {
  return vector::plan_softmax(anchored.node());
}

}  // namespace

std::span<const KernelEntry> vector_entries() {
  const auto softmax = vector::softmax_ops();
  static const KernelEntry entries[] = {
      {.matches = is_elementwise, .supports = vector::supports_elements, .plan = plan_elements},
      {.ops = {"sum", "prod", "max", "min"},
       .supports = vector::supports_reduction,
       .plan = plan_reduction},
      {.ops = {softmax.begin(), softmax.end()},
       .supports = supports_softmax,
       .plan = plan_softmax}};
  return entries;
}

}  // namespace keel::cpu
