// Softmax and its family on the vector unit.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/backends/npu/kernels/element_work.h"
#include "keel/backends/npu/kernels/kernel_row.h"

namespace keel::npu {
namespace {

Support supports_softmax(const AnchoredNode& anchored) {
  return vector::supports_softmax(anchored.node());
}

KernelPlan plan_softmax(const AnchoredNode& anchored, const PlanRequest&) {
  return vector::plan_softmax(anchored.node());
}

NodeWork softmax_work(const WorkRequest& request) {
  const Node& node = request.anchored.node();
  const Type type = node.input(0).type();
  return {{}, {row_work(request.preset, node, type, last_dim(type))}};
}

KernelRow softmax_row(std::string_view op, int64_t passes) {
  return {.ops = {op},
          .supports = supports_softmax,
          .plan = plan_softmax,
          .work = softmax_work,
          .passes = passes,
          .planned = &kPlannedSoftmax};
}

}  // namespace

// Passes are those of max, sub, exp, sum and div.
std::span<const KernelRow> softmax_rows() {
  static const KernelRow rows[] = {softmax_row("softmax", 19), softmax_row("log_softmax", 16),
                                   softmax_row("softmax_cross_entropy", 16),
                                   softmax_row("softmax_cross_entropy_grad", 22)};
  return rows;
}

}  // namespace keel::npu
