// Convolutions by transformed tiles are not carried out as planned: the reason that strict runs
// give.
#include "keel/backends/npu/kernels/planned_entry.h"
#include "keel/backends/npu/scheduler/tile_plan.h"

namespace keel::npu {

const PlannedEntry kPlannedTransformedTiles{
    .tiles = [](const PlannedRequest&) { return TilePlan(); },
    // NOLINTNEXTLINE(performance-unnecessary-value-param): others keep the plan.
    .run = [](const PlannedRequest&, TilePlan) -> PlannedLaunch {
      return {nullptr,
              "the host computes the convolution by transformed tiles, whose sums are others than "
              "those of the plan's windows; the attribute algorithm=direct has it sum terms"};
    }};

}  // namespace keel::npu
