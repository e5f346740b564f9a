#include "keel/backends/npu/planned/element_walk.h"

namespace keel::npu {

uint32_t walk_elements(const BroughtProgram& program, Core& core, const TilePlan::Cores& cores,
                       int64_t tile_elements, int buffers, void* const* args,
                       std::vector<WrittenOnce>& written) {
  uint32_t status = 0;
  for (size_t block = 0; block < cores.size(); ++block) {
    const std::vector<PlannedTile>& tiles = cores[block];
    core.begin_block(static_cast<int64_t>(block), program.claims(tile_elements, buffers));
    const auto place = [&](size_t tile) {
      core.begin_tile(static_cast<int64_t>(tile));
      return BroughtProgram::Place{core, 0, tile_elements, buffers,
                                   static_cast<int>(tile % static_cast<size_t>(buffers))};
    };
    const auto bring = [&](size_t t) {
      program.begin(place(t), tiles[t].rows);
      program.bring(place(t), args, tiles[t].row, tiles[t].rows, 0);
    };
    const auto take_out = [&](size_t t) {
      program.take_out(place(t), args, tiles[t].row, tiles[t].rows, 0, written);
    };
    if (buffers == 1) {
      for (size_t t = 0; t < tiles.size(); ++t) {
        bring(t);
        status |= program.compute(place(t), args, tiles[t].rows);
        take_out(t);
      }
      continue;
    }
    for (size_t t = 0; t < tiles.size() + 1; ++t) {
      if (t < tiles.size()) bring(t);
      if (t == 0) continue;
      status |= program.compute(place(t - 1), args, tiles[t - 1].rows);
      take_out(t - 1);
    }
  }
  return status;
}

}  // namespace keel::npu
