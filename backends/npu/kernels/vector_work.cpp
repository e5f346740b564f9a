#include "keel/backends/npu/kernels/vector_work.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "keel/backends/common/cube/lane_bytes.h"
#include "keel/backends/common/reduce_plan.h"
#include "keel/backends/common/tile_nodes.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/npu/kernels/element_work.h"
#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/core/base/checked.h"

namespace keel::npu {
namespace {

constexpr int64_t kBlockBytes = 32;  // of unified buffer

// Returns what comes before reductions, with the operands that it computes as its results. Operands
// that are stored are loaded beside what the prologue reads. REQUIRES computed operands.
VectorWork prologue_work(const Preset& preset, const AnchoredNode& fused) {
  const std::vector<Type> inputs = types_of(fused.node(), fused.prologue_inputs());
  const Type& type = fused.anchor().input(0).type();
  const std::vector<Type> results(fused.computed_operands(), type);
  return element_work(preset, instructions_of(fused.prologue()), inputs, results,
                      type.shape.num_elements());
}

// Returns what comes behind a reduction, with its results brought from global memory or still at
// hand.
std::shared_ptr<const VectorWork> epilogue_work(const Preset& preset, const AnchoredNode& fused,
                                                bool brought) {
  if (!fused.has_epilogue()) return nullptr;
  const Node& node = fused.node();
  std::vector<Type> inputs = types_of(node, fused.epilogue_inputs());
  if (brought) inputs.push_back(fused.anchor().type());
  return std::make_shared<VectorWork>(element_work(preset, instructions_of(fused.epilogue()),
                                                   inputs, node.types().to_vector(),
                                                   node.type().shape.num_elements()));
}

VectorWork reduction_base(const Preset& preset, const AnchoredNode& fused,
                          const ReducePlan& numeric) {
  const Node& node = fused.anchor();
  const int64_t passes = !numeric.last_reduced()  ? kPassesAcrossRows
                         : numeric.results() == 1 ? kPassesOfOneResult
                                                  : passes_of(node);
  VectorWork work;
  const DType dtype = node.input(0).dtype();
  work.bytes_in = bytes_of(node.input(0).type());
  const auto reductions = static_cast<int64_t>(fused.reductions());
  work.bytes_out = reductions * bytes_of(node.type());
  work.stores = reductions;
  work.pass_bytes = reductions * passes * lane_bytes(dtype);
  // Halves are accumulated in f32, so they are cast on the way.
  if (dtype == f16 || dtype == bf16) {
    work.pass_bytes = reductions * (passes + vector::instruction_passes("cast")) * lane_bytes(f32);
  }
  work.instructions = reductions;
  // The operand twice, and accumulators as wide as f32.
  work.tile_elements = tile_that_fits(preset, 2 * size_in_bytes(dtype) + 4);
  if (fused.computed_operands() == 0) return work;
  // The prologue computes operands on the core, so its inputs are loaded instead.
  const VectorWork prologue = prologue_work(preset, fused);
  work.bytes_in = prologue.bytes_in;
  work.loads = prologue.loads;
  work.pass_bytes += prologue.pass_bytes;
  work.instructions += prologue.instructions;
  work.tile_elements = prologue.tile_elements;
  return work;
}

// Neighbouring results that are made together: a block of unified buffer.
int64_t results_together(const Node& node, const ReducePlan& numeric) {
  const int64_t size = size_in_bytes(node.input(0).dtype());
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): launches do not compute on tokens.
  return numeric.last_reduced() ? 1 : std::max<int64_t>(1, kBlockBytes / size);
}

// By results: each block makes some of them, whole, and goes on with them.
Split by_results(const Preset& preset, const AnchoredNode& fused, const ReducePlan& numeric,
                 bool adds_up) {
  const Node& node = fused.anchor();
  Split split{.work = reduction_base(preset, fused, numeric)};
  const int64_t kept = numeric.results();
  split.results_of_a_unit = results_together(node, numeric);
  split.work.units = std::max<int64_t>(1, divide_up(kept, split.results_of_a_unit));
  const int64_t together = std::min(std::max<int64_t>(1, kept), split.results_of_a_unit);
  split.work.elements_per_unit =
      checked_mul(together, divide_up(numeric.elements(), std::max<int64_t>(1, kept)));
  split.work.elements = numeric.elements();
  split.work.epilogue = epilogue_work(preset, fused, false);
  if (split.work.epilogue != nullptr) split.work.bytes_out = split.work.stores = 0;
  split.limit = Limit::kRows;
  split.reason = std::to_string(kept) + (kept == 1 ? " result" : " results");
  if (numeric.elements() <= kept) return split;
  const DType dtype = node.input(0).dtype();
  if (!adds_up) {
    split.limit = Limit::kReduction;
    split.reason += "; partial results of " + node.op_name() + " cannot be merged across cores";
  } else if (!preset.has_atomic_add(dtype)) {
    split.limit = Limit::kAtomicAdd;
    split.reason += "; no atomic add for " + std::string(name_of(dtype)) + " on " + preset.name +
                    ", so that partial sums of several cores cannot be merged";
  }
  return split;
}

// By chunks of the numeric plan: each block adds its partial results to those of the others. A
// finer cut would add up in another order, so that bits depended on the number of blocks.
Split by_chunks(const Preset& preset, const AnchoredNode& fused, const ReducePlan& numeric) {
  Split split{.work = reduction_base(preset, fused, numeric)};
  split.merges = true;
  split.results_of_a_unit = results_together(fused.anchor(), numeric);
  const int64_t groups = divide_up(numeric.width(), split.results_of_a_unit);
  split.work.units = numeric.outer_count() * numeric.chunks() * groups;
  const int64_t together = std::min(numeric.width(), split.results_of_a_unit);
  const int64_t columns = numeric.outer_count() * numeric.chunks() * numeric.width();
  split.work.elements_per_unit =
      checked_mul(together, divide_up(numeric.elements(), std::max<int64_t>(1, columns)));
  split.work.elements = numeric.elements();
  split.work.bytes_out_per_block = split.work.bytes_out;
  split.work.epilogue = epilogue_work(preset, fused, true);
  split.limit = Limit::kReduction;
  split.reason = std::to_string(split.work.units) + " chunks, which are added up in their order";
  return split;
}

// The values that an element-wise node loads or stores, by their types.
struct Transfers {
  std::vector<Type> types;
  int64_t narrowest = 0;  // bytes of the shortest part of a row; 0: rows are moved whole

  void add_part(const Type& type) {
    const int64_t row = type.shape.back() * size_in_bytes(type.dtype);
    narrowest = narrowest == 0 ? row : std::min(narrowest, row);
    types.push_back(type);
  }
};

// Inputs whose rows are sliced are not loaded themselves, but each of their slices.
Transfers loads_of(const TileNodes& cluster) {
  Transfers loads;
  for (const RowSlice& slice : cluster.slices) loads.add_part(slice.value.type());
  for (const Value& v : cluster.inputs) {
    const auto is_sliced = [&](const RowSlice& slice) { return slice.of == v; };
    if (std::none_of(cluster.slices.begin(), cluster.slices.end(), is_sliced))
      loads.types.push_back(v.type());
  }
  return loads;
}

// Each part of the rows that an output joins is stored by itself.
Transfers stores_of(const TileNodes& cluster) {
  Transfers stores;
  for (const ClusterResult& result : cluster.results) {
    const Type type{result.value.dtype(), cluster.shape};
    if (result.is_part)
      stores.add_part(type);
    else
      stores.types.push_back(type);
  }
  return stores;
}

}  // namespace

Split tile_work(const Preset& preset, const AnchoredNode& anchored) {
  const Node& node = anchored.node();
  const std::vector<const Node*> instructions =
      node.bodies().empty() ? std::vector{&node} : instructions_of(anchored.epilogue());
  const TileNodes cluster = tile_nodes_of(node);
  const Transfers loads = loads_of(cluster), stores = stores_of(cluster);
  VectorWork work =
      element_work(preset, instructions, loads.types, stores.types, cluster.shape.num_elements());
  // A task has one length of rows for its loads and one for its stores: the shortest takes longest.
  work.row_in = loads.narrowest;
  work.row_out = stores.narrowest;
  return as_tiles(std::move(work));
}

std::vector<Split> reduction_work(const Preset& preset, const AnchoredNode& fused, bool adds_up) {
  const Node& node = fused.anchor();
  const ReducePlan numeric(node);
  std::vector<Split> splits = {by_results(preset, fused, numeric, adds_up)};
  const bool mergeable = adds_up && preset.has_atomic_add(node.input(0).dtype());
  if (mergeable && numeric.chunks() > 1) splits.push_back(by_chunks(preset, fused, numeric));
  return splits;
}

std::vector<std::vector<Split>> reductions_apart(const Preset& preset, const AnchoredNode& fused,
                                                 bool adds_up) {
  // Siblings are as much work as the anchor.
  std::vector<std::vector<Split>> tasks(fused.reductions(),
                                        reduction_work(preset, fused.anchor(), adds_up));
  if (fused.computed_operands() != 0) tasks.push_back({as_tiles(prologue_work(preset, fused))});
  if (fused.has_epilogue()) tasks.push_back({as_tiles(*epilogue_work(preset, fused, true))});
  return tasks;
}

}  // namespace keel::npu
