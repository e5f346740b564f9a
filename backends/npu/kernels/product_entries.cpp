#include <memory>

#include "keel/backends/common/products/cube_kernel.h"
#include "keel/backends/common/products/phased_product_kernel.h"
#include "keel/backends/common/products/winograd_kernel.h"
#include "keel/backends/npu/kernels/cube_work.h"
#include "keel/backends/npu/kernels/integer_product_kernel.h"
#include "keel/backends/npu/kernels/kernel_entry.h"

namespace keel::npu {
namespace {

bool is_integer_product(const AnchoredNode& fused) {
  return is_integer(fused.anchor().type().dtype);
}

KernelPlan plan_integers(const AnchoredNode& fused, const PlanRequest&) {
  return plan_integer_product(fused);
}

KernelPlan plan_phased_kernel(const AnchoredNode& node, const PlanRequest& request) {
  return plan_phases(node, request.saturate_f16);
}

KernelPlan plan_transformed_tiles(const AnchoredNode& node, const PlanRequest& request) {
  return plan_winograd(node, request.saturate_f16);
}

}  // namespace

std::span<const KernelEntry> product_entries() {
  static const KernelEntry entries[] = {
      {.ops = {"matmul"},
       .matches = is_integer_product,
       .supports = supports_integer_product,
       .plan = plan_integers,
       .work = integer_product_work,
       .planned = &kPlannedIntegerProduct},
      {.matches = has_winograd_form,
       .supports = supports_winograd,
       .plan = plan_transformed_tiles,
       .work = product_work,
       .planned = &kPlannedTransformedTiles},
      {.ops = {"conv2d_input_gradient"},
       .matches = has_phases,
       .supports = supports_phases,
       .plan = plan_phased_kernel,
       .work = phased_work,
       .planned = &kPlannedPhases},
      {.ops = {"matmul", "conv2d", "conv2d_input_gradient", "conv2d_weight_gradient"},
       .supports = supports_cube,
       .plan = plan_cube_kernel,
       .work = product_work,
       .planned = &kPlannedProduct}};
  return entries;
}

}  // namespace keel::npu
