// Attention is not carried out as planned: the reason that strict runs give.
#include "keel/backends/npu/kernels/planned_entry.h"
#include "keel/backends/npu/scheduler/tile_plan.h"

namespace keel::npu {

const PlannedEntry kPlannedAttention{
    .tiles = [](const PlannedRequest&) { return TilePlan(); },
    // NOLINTNEXTLINE(performance-unnecessary-value-param): others keep the plan.
    .run = [](const PlannedRequest&, TilePlan) -> PlannedLaunch {
      return {nullptr,
              "a core keeps blocks of scores between cube and vector unit, which its tiles "
              "do not describe"};
    }};

}  // namespace keel::npu
