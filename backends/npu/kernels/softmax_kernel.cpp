// Softmax and its family on the vector unit.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/backends/npu/kernels/element_work.h"
#include "keel/backends/npu/kernels/kernel_entry.h"

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
  const int64_t columns = last_dim(type);
  const auto scratch = static_cast<int64_t>(vector::make_softmax_op(node)->scratch_bytes(1));
  return {{},
          {row_work(request.preset, node, type, columns,
                    divide_up(scratch, std::max<int64_t>(1, columns)))}};
}

// Logarithms and losses of f16 rows that are far apart are beyond the largest value, and so are
// gradients that add up a row or are given an infinite factor; probabilities are not.
bool softmax_may_overflow(const AnchoredNode& anchored) {
  return anchored.anchor().op_name() != "softmax";
}

KernelEntry softmax_entry(std::string_view op, int64_t passes) {
  return {.ops = {op},
          .supports = supports_softmax,
          .plan = plan_softmax,
          .work = softmax_work,
          .passes = passes,
          .saturates_behind = softmax_may_overflow,
          .planned = &kPlannedSoftmax};
}

}  // namespace

// Passes are those of max, sub, exp, sum and div; of gradients of softmax and its logarithm those
// of mul, sum, sub and mul, and of a softmax, sum, mul and sub.
std::span<const KernelEntry> softmax_entries() {
  static const KernelEntry entries[] = {
      softmax_entry("softmax", 19),
      softmax_entry("log_softmax", 16),
      softmax_entry("softmax_gradient", 3 + kPassesOfAReduction),
      softmax_entry("log_softmax_gradient", 21 + kPassesOfAReduction),
      softmax_entry("softmax_cross_entropy", 16),
      softmax_entry("softmax_cross_entropy_grad", 22)};
  return entries;
}

}  // namespace keel::npu
