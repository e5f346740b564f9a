// Launches as planned whose kernel makes any range of its results (RangeKernel): what moves, draws
// or finds elements. Transfers bring moved elements to unified buffer from where they lie; a line
// that is searched or sorted is brought there as a whole.
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
  return {request.anchored.node(), kernel.units(), kernel.line() != 0};
}

TilePlan tiles(const PlannedRequest& request) {
  const std::unique_ptr<RangeKernel> kernel = kernel_of(request);
  // Without lines a unit is an element of the result.
  if (kernel->line() == 0) {
    return plan_elements(request.launch.split.work, request.launch.price.block_dim,
                         kernel->units());
  }
  return plan_whole_rows(request, rows_of(request, *kernel), kernel->line());
}

std::shared_ptr<const PlannedRun> make_run(const PlannedRequest& request, TilePlan plan) {
  const std::shared_ptr<const RangeKernel> kernel = kernel_of(request);
  // A line is brought only where its elements lie together.
  if (kernel->line() > 1 && kernel->line_step() != 1) return nullptr;
  const auto check = [kernel](void* const* args) {
    if (kernel->checks()) kernel->check(args);
  };
  const auto make = [kernel](void* const* at, int64_t begin, int64_t end) {
    std::vector<char> scratch(kernel->scratch_bytes());
    kernel->make(at, begin, end, scratch.data());
  };
  return make_planned_rows(request, std::move(plan), rows_of(request, *kernel), make, check);
}

}  // namespace

const PlannedEntry kPlannedRanges{.tiles = tiles, .run = make_run};

}  // namespace keel::npu
