// Reductions as planned: each core reduces its results, or its chunks of them; partial results of
// chunks are merged as the plan says; what is fused behind the reduction follows on the core, or
// behind the merges. Siblings go through each tile together, and each has such results.
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
  PlannedReduction(const PlannedRequest& request, TilePlan plan, WalkedReductions walked)
      : CoreRun(request, std::move(plan)),
        walked_(std::move(walked)),
        result_(request.anchored.anchor().type()),
        split_(request.launch.split),
        outputs_at_(request.anchored.node().inputs().size()),
        arguments_(outputs_at_ + request.anchored.node().types().size()),
        saturates_(request.preset->saturate_f16 && result_.dtype == f16 &&
                   walked_.numeric.elements() != 0) {
    if (request.anchored.has_epilogue()) make_epilogue(request.anchored);
  }

 private:
  uint32_t run_blocks(Core& core, void* const* args,
                      std::vector<WrittenOnce>& written) const override {
    written = nothing_written();
    return split_.merges ? run_chunks(core, args, written) : run_results(core, args, written);
  }

  size_t reductions() const { return walked_.operands.size(); }

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
    for (size_t i = 0; i < reductions(); ++i)
      written.emplace_back("output " + std::to_string(i), walked_.numeric.results());
    return written;
  }

  // Calls f(first, count) for groups of neighbouring results that a core reduces at once.
  template <class F>
  void for_groups(const PlannedTile& tile, int64_t most, const F& f) const {
    const ReducePlan& numeric = walked_.numeric;
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
      ChunkWalk walk(walked_, core, args);
      int64_t most = walk.most_results();
      if (epilogue_) {
        most = std::min(most,
                        std::max<int64_t>(1, split_.work.epilogue->tile_elements / kEpilogueShare));
      }
      for (const PlannedTile& tile : plan().cores[block]) {
        for_groups(tile, most, [&](int64_t first, int64_t count) {
          walk.begin_block(static_cast<int64_t>(block), std::min(most, tile.rows));
          walk.reduce_all(first, count);
          for (size_t i = 0; i < reductions(); ++i) {
            const std::vector<char> results =
                rounded(walk.merged(i), walk.accumulator(), count, &status);
            if (epilogue_)
              status |=
                  follow(core, static_cast<int64_t>(block), args, results, first, count, written);
            else
              store(core, args, {i, results.data(), first, count}, written);
          }
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

  // Results of one of the reductions, rounded.
  struct Results {
    size_t reduction = 0;
    const char* elements = nullptr;
    int64_t first = 0, count = 0;
  };

  void store(const Core& core, void* const* args, const Results& results,
             std::vector<WrittenOnce>& written) const {
    written[results.reduction].write(core, results.first, results.count);
    const size_t size = size_of(result_.dtype);
    std::memcpy(static_cast<char*>(args[outputs_at_ + results.reduction]) +
                    static_cast<size_t>(results.first) * size,
                results.elements, static_cast<size_t>(results.count) * size);
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

  // Partial results of one of the reductions in memory, by chunk.
  struct Partials {
    std::vector<char> sums;
    std::vector<WrittenOnce> made;
  };

  size_t accumulator_bytes() const {
    return static_cast<size_t>(walked_.numeric.results()) * size_of(accumulator_of(walked_.dtype));
  }

  std::vector<Partials> no_partials() const {
    const int64_t chunks = walked_.numeric.chunks();
    std::vector<Partials> all(reductions());
    for (Partials& partials : all) {
      partials.sums.resize(static_cast<size_t>(chunks) * accumulator_bytes());
      for (int64_t c = 0; c < chunks; ++c) {
        partials.made.emplace_back("partial results of chunk " + std::to_string(c),
                                   walked_.numeric.results());
      }
    }
    return all;
  }

  uint32_t run_chunks(Core& core, void* const* args, std::vector<WrittenOnce>& written) const {
    uint32_t status = 0;
    std::vector<Partials> partials = no_partials();
    const size_t size = size_of(accumulator_of(walked_.dtype));
    for (size_t block = 0; block < plan().cores.size(); ++block) {
      ChunkWalk walk(walked_, core, args);
      const int64_t most = walk.most_results();
      for (const PlannedTile& tile : plan().cores[block]) {
        for_groups(tile, most, [&](int64_t first, int64_t count) {
          walk.begin_block(static_cast<int64_t>(block), std::min(most, tile.rows));
          walk.reduce(tile.batch, first, count);
          for (size_t i = 0; i < reductions(); ++i) {
            partials[i].made[static_cast<size_t>(tile.batch)].write(core, first, count);
            std::memcpy(partials[i].sums.data() +
                            static_cast<size_t>(tile.batch) * accumulator_bytes() +
                            static_cast<size_t>(first) * size,
                        walk.sums(i), static_cast<size_t>(count) * size);
          }
        });
      }
      status |= walk.status();
    }
    for (size_t i = 0; i < reductions(); ++i) {
      for (const WrittenOnce& made : partials[i].made) made.require_all(core);
      merge(core, args, i, partials[i]);
      status |= finish_merged(core, args, i, partials[i].sums.data(), written);
    }
    return status;
  }

  // Rounds the merged sums of a reduction, and follows them with what is behind it.
  uint32_t finish_merged(Core& core, void* const* args, size_t reduction, const char* sums,
                         std::vector<WrittenOnce>& written) const {
    uint32_t status = 0;
    const int64_t results = walked_.numeric.results();
    const std::vector<char> reduced =
        rounded(sums, accumulator_of(walked_.dtype), results, &status);
    if (!epilogue_) {
      store(core, args, {reduction, reduced.data(), 0, results}, written);
      return status;
    }
    std::vector<void*> with_results(args, args + arguments_);
    with_results.push_back(const_cast<char*>(reduced.data()));
    return status | walk_elements(*epilogue_, core, plan().behind,
                                  split_.work.epilogue->tile_elements, 2, with_results.data(),
                                  written);
  }

  // Adds the partial results to those of chunk 0, each exactly once.
  void merge(Core& core, void* const* args, size_t reduction, Partials& partials) const {
    const int64_t results = walked_.numeric.results(), chunks = walked_.numeric.chunks();
    const size_t size = size_of(accumulator_of(walked_.dtype));
    const ChunkWalk walk(walked_, core, args);
    std::vector<WrittenOnce> merged;
    for (int64_t c = 0; c < chunks; ++c) {
      merged.emplace_back("merges of chunk " + std::to_string(c), results);
    }
    for (const PlannedMerge& m : plan().merges) {
      merged[static_cast<size_t>(m.batch)].write(core, m.row, m.rows);
      if (m.batch == 0) continue;
      const size_t at = static_cast<size_t>(m.row) * size;
      walk.merge(partials.sums.data() + static_cast<size_t>(m.batch) * accumulator_bytes() + at,
                 partials.sums.data() + at, m.rows);
    }
    for (size_t c = 0; c < merged.size(); ++c) {
      const auto gap = merged[c].first_gap();
      if (!gap) continue;
      core.fail("output " + std::to_string(reduction),
                "a missed merge: the partial result " + std::to_string(*gap) + " of chunk " +
                    std::to_string(c) + ", which " + partials.made[c].writer_of(*gap) +
                    " left, is never added");
    }
  }

  WalkedReductions walked_;
  Type result_;  // of the reduction, rounded
  Split split_;
  size_t outputs_at_, arguments_;  // numbers of arguments: the first output, and of all but others
  bool saturates_;
  std::optional<BroughtProgram> epilogue_;
};

TilePlan tiles_of_reduction(const PlannedRequest& request) {
  return plan_reduction(request.launch, ReducePlan(request.anchored.anchor()));
}

std::vector<WalkedReductions::Operand> operands_of(const AnchoredNode& fused) {
  std::vector<WalkedReductions::Operand> operands;
  const std::vector<size_t>& inputs = fused.prologue_inputs();
  size_t computed = 0;
  for (size_t i = 0; i < fused.reductions(); ++i) {
    WalkedReductions::Operand operand;
    if (fused.has_prologue(i)) {
      operand.result = computed++;
    } else {
      operand.argument = fused.source(i).value();
      const auto at = std::find(inputs.begin(), inputs.end(), operand.argument);
      operand.input = static_cast<size_t>(at - inputs.begin());
    }
    operands.push_back(operand);
  }
  return operands;
}

PlannedLaunch make_reduction_run(const PlannedRequest& request, TilePlan plan) {
  if (ReducePlan(request.anchored.anchor()).parts() > 1)
    return {nullptr,
            "the host adds parts up as a tree, and the plan's cores chunks in their order"};
  const AnchoredNode& fused = request.anchored;
  const Node& reduction = fused.anchor();
  const VectorWork& work = request.launch.split.work;
  WalkedReductions walked{.numeric = ReducePlan(reduction),
                          .op = reduction.op_name(),
                          .dtype = reduction.input(0).dtype(),
                          .operands = operands_of(fused),
                          .prologue = std::nullopt,
                          .tile_elements = work.tile_elements,
                          .buffers = work.double_buffer ? 2 : 1};
  const bool computes = std::any_of(walked.operands.begin(), walked.operands.end(),
                                    [](const auto& operand) { return operand.result.has_value(); });
  if (computes) {
    const std::unique_ptr<Graph> graph = fused.prologue_graph();
    TileProgram program(*graph, vector::instruction_lookup(request.preset->saturate_f16));
    std::vector<BroughtOperand> inputs, outputs;
    for (const size_t i : fused.prologue_inputs())
      inputs.push_back({i, fused.node().input(i).type()});
    for (const Value& v : graph->outputs()) outputs.push_back({std::nullopt, v.type()});
    const Shape made = graph->outputs()[0].shape();
    walked.prologue.emplace(std::move(program), made, std::move(inputs), std::move(outputs),
                            static_cast<int64_t>(instructions_of(fused.prologue()).size()));
  }
  return {std::make_shared<PlannedReduction>(request, std::move(plan), std::move(walked)), ""};
}

}  // namespace

const PlannedEntry kPlannedReduction{.tiles = tiles_of_reduction, .run = make_reduction_run};

}  // namespace keel::npu
