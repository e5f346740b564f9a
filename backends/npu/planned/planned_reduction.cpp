// Reductions as planned: each core reduces its results, or its chunks of them; partial results of
// chunks are merged as the plan says; what is fused behind the reduction follows on the core, or
// behind the merges.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "keel/backends/common/reduce_kernel.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/common/vector/saturation.h"
#include "keel/backends/npu/kernels/element_work.h"
#include "keel/backends/npu/kernels/planned_entry.h"
#include "keel/backends/npu/planned/chunk_walk.h"
#include "keel/backends/npu/planned/core_run.h"
#include "keel/backends/npu/planned/element_walk.h"
#include "keel/backends/npu/scheduler/tile_plan.h"

namespace keel::npu {
namespace {

// Results that stay on the core for the epilogue lie beside its tile, which the prices let fill
// unified buffer: a tile of an eighth leaves room for them whatever the dtypes.
constexpr int64_t kEpilogueShare = 8;
constexpr int64_t kSmallestTile = 64;  // elements; the least that prices let a tile have

class PlannedReduction final : public CoreRun {
 public:
  PlannedReduction(const PlannedRequest& request, TilePlan plan, ReducedOperand operand)
      : CoreRun(request, std::move(plan)),
        operand_(std::move(operand)),
        result_(request.anchored.anchor().type()),
        split_(request.launch.split),
        outputs_at_(request.anchored.node().inputs().size()),
        arguments_(outputs_at_ + request.anchored.node().types().size()),
        saturates_(request.preset->saturate_f16 && result_.dtype == f16 &&
                   operand_.numeric.elements() != 0) {
    if (request.anchored.has_epilogue()) make_epilogue(request.anchored);
  }

 private:
  uint32_t run_blocks(Core& core, void* const* args,
                      std::vector<WrittenOnce>& written) const override {
    written = nothing_written();
    return split_.merges ? run_chunks(core, args, written) : run_results(core, args, written);
  }

  void make_epilogue(const AnchoredNode& fused) {
    const Node& node = fused.node();
    const EpilogueGraph graph(fused);
    TileProgram program(*graph.graph, vector::instruction_lookup(preset().saturate_f16));
    // The reduction's results come from memory, behind the kernel's arguments, or are there.
    std::vector<BroughtOperand> inputs = {
        {split_.merges ? std::optional(arguments_) : std::nullopt, result_}};
    for (const size_t i : fused.epilogue_inputs()) {
      inputs.push_back({i, node.bodies()[0]->inputs()[i].type()});
    }
    std::vector<BroughtOperand> outputs;
    for (size_t i = 0; i < node.types().size(); ++i)
      outputs.push_back({outputs_at_ + i, node.type(i)});
    epilogue_.emplace(std::move(program), graph.graph->outputs()[0].shape(), std::move(inputs),
                      std::move(outputs), split_.work.epilogue->instructions);
  }

  std::vector<WrittenOnce> nothing_written() const {
    if (epilogue_) return epilogue_->nothing_written();
    std::vector<WrittenOnce> written;
    written.emplace_back("output 0", operand_.numeric.results());
    return written;
  }

  // Calls f(first, count) for groups of neighbouring results that a core reduces at once.
  template <class F>
  void for_groups(const PlannedTile& tile, int64_t most, const F& f) const {
    const ReducePlan& numeric = operand_.numeric;
    for (int64_t r = tile.row; r < tile.end();) {
      int64_t count = std::min(most, tile.end() - r);
      if (!numeric.last_reduced()) count = std::min(count, numeric.width() - r % numeric.width());
      f(r, count);
      r += count;
    }
  }

  uint32_t run_results(Core& core, void* const* args, std::vector<WrittenOnce>& written) const {
    uint32_t status = 0;
    for (size_t block = 0; block < plan().cores.size(); ++block) {
      ChunkWalk walk(operand_, core, args);
      int64_t most = walk.most_results();
      if (epilogue_) {
        most = std::min(most,
                        std::max<int64_t>(1, split_.work.epilogue->tile_elements / kEpilogueShare));
      }
      for (const PlannedTile& tile : plan().cores[block]) {
        for_groups(tile, most, [&](int64_t first, int64_t count) {
          walk.begin_block(static_cast<int64_t>(block), std::min(most, tile.rows));
          const std::vector<char> results =
              rounded(walk.reduce_all(first, count), walk.accumulator(), count, &status);
          if (epilogue_)
            status |=
                follow(core, static_cast<int64_t>(block), args, results, first, count, written);
          else
            store(core, args, results, first, count, written);
        });
      }
      status |= walk.status();
    }
    return status;
  }

  std::vector<char> rounded(const char* sums, DType accumulator, int64_t count,
                            uint32_t* status) const {
    std::vector<char> results(static_cast<size_t>(count) * size_of(result_.dtype));
    round_accumulators(sums, accumulator, results.data(), result_.dtype, count);
    if (saturates_)
      *status |= vector::stop_at_largest(reinterpret_cast<uint16_t*>(results.data()), count);
    return results;
  }

  void store(const Core& core, void* const* args, const std::vector<char>& results, int64_t first,
             int64_t count, std::vector<WrittenOnce>& written) const {
    written[0].write(core, first, count);
    const size_t size = size_of(result_.dtype);
    std::memcpy(static_cast<char*>(args[outputs_at_]) + static_cast<size_t>(first) * size,
                results.data(), static_cast<size_t>(count) * size);
  }

  // The epilogue of results that are on the core.
  uint32_t follow(Core& core, int64_t block, void* const* args, const std::vector<char>& results,
                  int64_t first, int64_t count, std::vector<WrittenOnce>& written) const {
    const int64_t tile = core.tile();
    const int64_t elements = std::max(count, kSmallestTile);
    core.begin_block(block, epilogue_->claims(elements, 2));
    core.begin_tile(tile);
    const BroughtProgram::Place place{core, 0, elements, 2, 0};
    epilogue_->begin(place, count);
    epilogue_->bring(place, args, first, count, 0);
    std::memcpy(epilogue_->input(place, 0), results.data(), results.size());
    const uint32_t status = epilogue_->compute(place, args, count);
    epilogue_->take_out(place, args, first, count, 0, written);
    return status;
  }

  // ---- chunks that several cores share

  // Partial results in memory, by chunk.
  struct Partials {
    std::vector<char> sums;
    std::vector<WrittenOnce> made;
  };

  uint32_t run_chunks(Core& core, void* const* args, std::vector<WrittenOnce>& written) const {
    uint32_t status = 0;
    Partials partials;
    const int64_t results = operand_.numeric.results(), chunks = operand_.numeric.chunks();
    const size_t size = size_of(accumulator_of(operand_.dtype));
    const size_t row = static_cast<size_t>(results) * size;
    partials.sums.resize(static_cast<size_t>(chunks) * row);
    for (int64_t c = 0; c < chunks; ++c) {
      partials.made.emplace_back("partial results of chunk " + std::to_string(c), results);
    }
    for (size_t block = 0; block < plan().cores.size(); ++block) {
      ChunkWalk walk(operand_, core, args);
      const int64_t most = walk.most_results();
      for (const PlannedTile& tile : plan().cores[block]) {
        for_groups(tile, most, [&](int64_t first, int64_t count) {
          walk.begin_block(static_cast<int64_t>(block), std::min(most, tile.rows));
          const char* sums = walk.reduce(tile.batch, first, count);
          partials.made[static_cast<size_t>(tile.batch)].write(core, first, count);
          std::memcpy(partials.sums.data() + static_cast<size_t>(tile.batch) * row +
                          static_cast<size_t>(first) * size,
                      sums, static_cast<size_t>(count) * size);
        });
      }
      status |= walk.status();
    }
    for (const WrittenOnce& made : partials.made) made.require_all(core);
    merge(core, args, partials);
    const std::vector<char> reduced =
        rounded(partials.sums.data(), accumulator_of(operand_.dtype), results, &status);
    if (!epilogue_) {
      store(core, args, reduced, 0, results, written);
      return status;
    }
    std::vector<void*> with_results(args, args + arguments_);
    with_results.push_back(const_cast<char*>(reduced.data()));
    return status | walk_elements(*epilogue_, core, plan().behind,
                                  split_.work.epilogue->tile_elements, 2, with_results.data(),
                                  written);
  }

  // Adds the partial results to those of chunk 0, each exactly once.
  void merge(Core& core, void* const* args, Partials& partials) const {
    const int64_t results = operand_.numeric.results(), chunks = operand_.numeric.chunks();
    const size_t size = size_of(accumulator_of(operand_.dtype));
    const size_t row = static_cast<size_t>(results) * size;
    const ChunkWalk walk(operand_, core, args);
    std::vector<WrittenOnce> merged;
    for (int64_t c = 0; c < chunks; ++c) {
      merged.emplace_back("merges of chunk " + std::to_string(c), results);
    }
    for (const PlannedMerge& m : plan().merges) {
      merged[static_cast<size_t>(m.batch)].write(core, m.row, m.rows);
      if (m.batch == 0) continue;
      const size_t at = static_cast<size_t>(m.row) * size;
      walk.merge(partials.sums.data() + static_cast<size_t>(m.batch) * row + at,
                 partials.sums.data() + at, m.rows);
    }
    for (size_t c = 0; c < merged.size(); ++c) {
      const auto gap = merged[c].first_gap();
      if (!gap) continue;
      core.fail("output 0", "a missed merge: the partial result " + std::to_string(*gap) +
                                " of chunk " + std::to_string(c) + ", which " +
                                partials.made[c].writer_of(*gap) + " left, is never added");
    }
  }

  ReducedOperand operand_;
  Type result_;  // of the reduction, rounded
  Split split_;
  size_t outputs_at_, arguments_;  // numbers of arguments: the first output, and of all but others
  bool saturates_;
  std::optional<BroughtProgram> epilogue_;
};

TilePlan tiles(const PlannedRequest& request) {
  return plan_reduction(request.launch, ReducePlan(request.anchored.anchor()));
}

PlannedLaunch make_run(const PlannedRequest& request, TilePlan plan) {
  if (ReducePlan(request.anchored.anchor()).parts() > 1)
    return {nullptr,
            "the host adds parts up as a tree, and the plan's cores chunks in their order"};
  const AnchoredNode& fused = request.anchored;
  const Node& reduction = fused.anchor();
  const VectorWork& work = request.launch.split.work;
  ReducedOperand operand{.numeric = ReducePlan(reduction),
                         .op = reduction.op_name(),
                         .dtype = reduction.input(0).dtype(),
                         .prologue = std::nullopt,
                         .tile_elements = work.tile_elements,
                         .buffers = work.double_buffer ? 2 : 1};
  if (!fused.has_prologue(0)) {
    operand.argument = fused.source(0).value();
  } else {
    const std::unique_ptr<Graph> graph = fused.prologue_graph();
    TileProgram program(*graph, vector::instruction_lookup(request.preset->saturate_f16));
    std::vector<BroughtOperand> inputs;
    for (const size_t i : fused.prologue_inputs())
      inputs.push_back({i, fused.node().input(i).type()});
    const Type made = graph->outputs()[0].type();
    operand.prologue.emplace(std::move(program), made.shape, std::move(inputs),
                             std::vector<BroughtOperand>{{std::nullopt, made}},
                             static_cast<int64_t>(instructions_of(fused.prologue()).size()));
  }
  return {std::make_shared<PlannedReduction>(request, std::move(plan), std::move(operand)), ""};
}

}  // namespace

const PlannedEntry kPlannedReduction{.tiles = tiles, .run = make_run};

}  // namespace keel::npu
