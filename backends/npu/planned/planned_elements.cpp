// Element-wise launches as planned: each core takes its range of elements through unified buffer,
// tile by tile.
#include <memory>
#include <utility>
#include <vector>

#include "keel/backends/common/tile_nodes.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/npu/kernels/element_work.h"
#include "keel/backends/npu/kernels/planned_entry.h"
#include "keel/backends/npu/planned/core_run.h"
#include "keel/backends/npu/planned/element_walk.h"
#include "keel/backends/npu/scheduler/tile_plan.h"

namespace keel::npu {
namespace {

class PlannedElements final : public CoreRun {
 public:
  PlannedElements(const PlannedRequest& request, TilePlan plan, BroughtProgram program)
      : CoreRun(request, std::move(plan)),
        program_(std::move(program)),
        tile_elements_(request.launch.split.work.tile_elements),
        buffers_(request.launch.split.work.double_buffer ? 2 : 1) {}

 private:
  uint32_t run_blocks(Core& core, void* const* args,
                      std::vector<WrittenOnce>& written) const override {
    written = program_.nothing_written();
    return walk_elements(program_, core, plan().cores, tile_elements_, buffers_, args, written);
  }

  BroughtProgram program_;
  int64_t tile_elements_;
  int buffers_;
};

TilePlan tiles_of_elements(const PlannedRequest& request) {
  return plan_elements(request.launch.split.work, request.launch.price.block_dim,
                       tile_nodes_of(request.anchored.node()).shape.num_elements());
}

PlannedLaunch make_elements_run(const PlannedRequest& request, TilePlan plan) {
  const Node& node = request.anchored.node();
  TileProgram program(node, vector::instruction_lookup(request.preset->saturate_f16));
  if (program.moves_parts()) return {nullptr, "parts of rows are not brought alone"};
  std::vector<BroughtOperand> inputs, outputs;
  for (size_t i = 0; i < node.inputs().size(); ++i) inputs.push_back({i, node.input(i).type()});
  for (size_t i = 0; i < node.types().size(); ++i) {
    outputs.push_back({node.inputs().size() + i, node.type(i)});
  }
  return {std::make_shared<PlannedElements>(
              request, std::move(plan),
              BroughtProgram(std::move(program), node.type().shape, std::move(inputs),
                             std::move(outputs), request.launch.split.work.instructions)),
          ""};
}

}  // namespace

const PlannedEntry kPlannedElements{.tiles = tiles_of_elements, .run = make_elements_run};

}  // namespace keel::npu
