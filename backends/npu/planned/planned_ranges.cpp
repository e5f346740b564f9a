// Launches as planned whose kernel makes any range of its results (RangeKernel): what moves, draws
// or finds elements. Transfers bring moved elements to unified buffer from where they lie; a line
// that is searched or sorted is brought there as a whole, its elements together.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "keel/backends/common/shared_kernels.h"
#include "keel/backends/npu/planned/planned_rows.h"

namespace keel::npu {
namespace {

// REQUIRES that the op's results are made range by range.
std::unique_ptr<RangeKernel> kernel_of(const PlannedRequest& request) {
  const Node& node = request.anchored.node();
  return find_shared_kernel(node)->ranges(node, /*most_blocks=*/1);
}

RowLayout rows_of(const PlannedRequest& request, const RangeKernel& kernel) {
  RowLayout rows = rows_of_node(request.anchored.node(), kernel.units(), kernel.line() != 0);
  if (kernel.line() != 0) rows.step = kernel.line_step();
  return rows;
}

TilePlan tiles_of_ranges(const PlannedRequest& request) {
  const std::unique_ptr<RangeKernel> kernel = kernel_of(request);
  const int64_t elements = request.anchored.node().type().shape.num_elements();
  if (kernel->line() == 0 && kernel->units() == elements) {
    return plan_elements(request.launch.split.work, request.launch.price.block_dim, elements);
  }
  const int64_t of_unit = elements / std::max<int64_t>(1, kernel->units());
  return plan_whole_rows(request, rows_of(request, *kernel), std::max(kernel->line(), of_unit));
}

PlannedLaunch make_ranges_run(const PlannedRequest& request, TilePlan plan) {
  const std::shared_ptr<const RangeKernel> checking = kernel_of(request);
  RowLayout rows = rows_of(request, *checking);
  std::shared_ptr<const RangeKernel> kernel = checking;
  if (rows.step != 1) kernel = checking->of_lines_together();
  const auto check = [checking](void* const* args) {
    if (checking->checks()) checking->check(args);
  };
  const auto make = [kernel](void* const* at, int64_t begin, int64_t end, void*) {
    std::vector<char> scratch(kernel->scratch_bytes());
    kernel->make(at, begin, end, scratch.data());
  };
  return make_planned_rows(request, std::move(plan), std::move(rows), {make, check});
}

}  // namespace

const PlannedEntry kPlannedRanges{.tiles = tiles_of_ranges, .run = make_ranges_run};

}  // namespace keel::npu
