#include "keel/backends/npu/planned/core_run.h"

#include <algorithm>
#include <utility>

#include "keel/backends/common/float_status.h"
#include "keel/backends/npu/scheduler/scheduler.h"

namespace keel::npu {

CoreRun::CoreRun(CoreLaunch launch) : launch_(std::move(launch)) {}

CoreRun::CoreRun(const PlannedRequest& request, TilePlan plan)
    : CoreRun({request.preset, request.launch.op, std::move(plan), request.status_argument}) {}

void CoreRun::run(void* const* args) const {
  Core core(preset(), op());
  std::vector<WrittenOnce> written;
  const uint32_t status = run_blocks(core, args, written);
  for (const WrittenOnce& output : written) output.require_all(core);
  if (launch_.status_argument) raise_float_status(args[*launch_.status_argument], status);
}

int64_t CoreRun::most_rows() const {
  int64_t most = 0;
  for (const auto& tiles : plan().cores) {
    for (const PlannedTile& tile : tiles) most = std::max(most, tile.rows);
  }
  return most;
}

int64_t CoreRun::most_columns() const {
  int64_t most = 0;
  for (const auto& tiles : plan().cores) {
    for (const PlannedTile& tile : tiles) most = std::max(most, tile.columns);
  }
  return most;
}

}  // namespace keel::npu
