// Copies within the device's memory as planned: ranges of bytes go through unified buffer.
#include <algorithm>
#include <cstring>
#include <utility>

#include "keel/backends/npu/planned/planned_rows.h"

namespace keel::npu {

PlannedLaunch plan_copy_run(std::shared_ptr<const Preset> preset, const Launch& launch,
                            int64_t bytes) {
  // Tiles are cut at multiples of 64 bytes; what is written is checked in units as large.
  const int64_t unit = bytes == 0 ? 1 : std::min<int64_t>(64, bytes & -bytes);
  TilePlan plan = plan_elements(launch.split.work, launch.price.block_dim, bytes);
  for (auto& tiles : plan.cores) {
    for (PlannedTile& tile : tiles) {
      tile.row /= unit;
      tile.rows /= unit;
    }
  }
  const Type types[] = {Type{u8, Shape{bytes}}};
  const auto copy = [unit](void* const* at, int64_t begin, int64_t end, void*) {
    std::memcpy(static_cast<char*>(at[1]) + begin * unit,
                static_cast<const char*>(at[0]) + begin * unit,
                static_cast<size_t>((end - begin) * unit));
  };
  RowLayout rows(types, types, bytes / unit, /*brings=*/true);
  return make_planned_rows({std::move(preset), launch.op, std::move(plan)}, std::move(rows),
                           {copy});
}

}  // namespace keel::npu
