// Data parallel training: the ranks of a group compute gradients of their parts of a batch and move
// their states by the mean of all, so that the states stay equal on all ranks. All are compositions
// of ops: the sums over ranks are all_reduce (ops/all_reduce.h), inside of the step. Building: one
// thread per graph. Not in nn.h, as few programs have ranks.
//
//   auto train = data_parallel(adam(0.001), group).minimize(loss);
//
//   const DataParallel ranks(group);
//   auto states = trainable_states(loss);
//   auto global = ranks.gradients(loss, states);             // the same on all ranks
//   auto clipped = clip_by_global_norm(global.gradients, 1.0);
//   auto train = adam(0.001).apply(states, clipped, global.loss);
//   train += global.statistics;
//
// A loss has to be a mean over the rows of a batch, and inputs with a first axis have these. Then
// the mean of the ranks' losses is the loss of the global batch, and training on it is training on
// one rank with as many rows.
//
// **Micro-shards.** With M of them a global batch is M parts of consecutive rows, of which each
// rank has M / ranks. The loss and the gradients are sums over parts (ops/sum_of_parts.h), added as
// a balanced tree over those of all ranks: (0 + 1) + (2 + 3). So the bits of a training depend on
// M, and not on how many ranks share the parts, where both are powers of two. A rank computes the
// rows of all its parts at once and sums over rows part by part; what ops it cannot compute so are
// computed part by part as a whole, which a log line at level info says. Random ops shaped like a
// value with rows, as in dropout, count the rows of all parts. Where a loss has no parts, which is
// so with one micro-shard or with running statistics, all ranks draw the same numbers.
#ifndef KEEL_OPS_NN_DATA_PARALLEL_H
#define KEEL_OPS_NN_DATA_PARALLEL_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/group/group.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/update.h"
#include "keel/ops/nn/loss_scale.h"
#include "keel/ops/nn/optimizers.h"

namespace keel {

struct LookedUpRows;  // these two: ops/nn/table_gradients.h
struct TableGradient;

// Returns how many micro-shards a training has that does not say: the smallest power of two that is
// not less than the ranks.
KEEL_API int64_t default_micro_shards(int64_t ranks);

struct DataParallelOptions {
  int64_t micro_shards = 0;          // of the global batch; 0: default_micro_shards
  int64_t bucket_bytes = 1ll << 20;  // gradients that are summed together, at most; one at least
  // The gradient of an f32 table of which a loss reads rows by one gather() along the first axis,
  // as an embedding does, may travel as the ids and the gradients of these rows: true, false, or
  // not said, which is where the table has four times as many elements, and all sizes are known
  // when the step is built. Its bits are those of the sum of whole tables where the ranks are a
  // power of two. Where a rank has several micro-shards, whole tables are summed.
  std::optional<bool> gather_rows{};
};

// Holds what a step came to on all ranks together, with the same bits on each of them.
struct GlobalGradients {
  // Gradients of the mean of the ranks' losses: one for each state, and of its type, but that of a
  // 16-bit state is f32 where it was summed or unscaled.
  Values gradients;
  Value loss;         // that mean, of the loss's dtype
  Values flags;       // for each flag that was given, whether it is true on any rank
  Value finite;       // with a scaler: LossScaler::finite of all ranks' gradients
  Update statistics;  // the loss's attached_updates, of whose floats the means over the ranks
};

struct GlobalGradientsOptions {
  // Bool scalars of a step that all ranks have to agree on, such as a stop_when.
  Values flags = {};
  // Computes the gradients of a scaled loss, and divides them when they are summed.
  const LossScaler* scaler = nullptr;
};

class KEEL_API DataParallel {
 public:
  // No group is a group of one. Throws Error for micro_shards and bucket_bytes below 1 (but 0).
  explicit DataParallel(std::shared_ptr<Group> group, const DataParallelOptions& options = {},
                        CallSite site = CallSite::here());

  int64_t ranks() const noexcept { return ranks_; }
  int64_t micro_shards() const noexcept { return micro_shards_; }
  // Says why a training of this loss has other bits with another number of ranks; "" where it has
  // the same ones.
  std::string why_not_bit_equal(Operand loss) const;

  // Gradients are summed in buckets of at most bucket_bytes, from the last state to the first. The
  // loss, the flags and the statistics are in the last bucket. Sums are f32,
  // whatever the states are. Throws Error for f64 states where there are several ranks, for flags
  // that are no bool scalars, and where keel::gradients does.
  GlobalGradients gradients(Operand loss, const Values& states,
                            const GlobalGradientsOptions& options = {},
                            CallSite site = CallSite::here()) const;

  // Returns the means over the ranks of values that this rank has, each of its own type, and for
  // each flag whether it is true on any rank. A value that is invalid stays so.
  GlobalGradients means(const Values& values, const Values& flags = {},
                        CallSite site = CallSite::here()) const;

 private:
  // Returns how many parts a rank's batch has; 0 where it is computed without parts.
  int64_t own_shards(Value loss) const;
  // Returns the number that the first of them has among those of all ranks.
  int64_t first_shard(int64_t own) const;
  // Replaces sums over a rank's parts by `scale` times those over all ranks, and returns those of
  // the tables.
  Values sum_over_ranks(Values& values, Values& others, const std::vector<TableGradient>& tables,
                        double scale, CallSite site) const;
  std::vector<std::vector<LookedUpRows>> gathered_look_ups(Value loss, int64_t shards,
                                                           const Values& states) const;

  std::shared_ptr<Group> group_;
  int64_t ranks_ = 1;
  int64_t micro_shards_ = 1;
  int64_t bucket_bytes_ = 0;
  std::optional<bool> gather_rows_;
};

// An optimizer whose gradients are means over the ranks. With one rank and no micro-shards it is
// the optimizer.
class KEEL_API DataParallelOptimizer {
 public:
  DataParallelOptimizer(const Optimizer& optimizer, DataParallel ranks,
                        std::optional<double> clip_norm);

  // As Optimizer::minimize: attached updates included.
  Update minimize(Operand loss, CallSite site = {}) const;
  Update minimize(Operand loss, const Values& states, CallSite site = {}) const;
  // As Optimizer::apply, with the gradients of this rank. A state whose gradient is invalid stays
  // as it is.
  Update apply(const Values& states, const Values& gradients,
               CallSite site = CallSite::here()) const;
  Update apply(const Values& states, const Values& gradients, Operand loss,
               CallSite site = CallSite::here()) const;

 private:
  Values clipped(const Values& gradients, CallSite site) const;
  Update apply_means(Values states, Values gradients, Value loss, CallSite site) const;

  Optimizer optimizer_;
  DataParallel ranks_;
  std::optional<double> clip_norm_;
};

struct DataParallelOptimizerOptions {
  int64_t micro_shards = 0;
  int64_t bucket_bytes = 1ll << 20;
  std::optional<bool> gather_rows{};
  // Clips by the global norm of the means (ops/nn/clipping.h).
  std::optional<double> clip_norm{};
};

// A gradient that is given to apply() is summed whole, an embedding's too; minimize() may gather
// its rows (DataParallelOptions::gather_rows).
KEEL_API DataParallelOptimizer data_parallel(const Optimizer& optimizer,
                                             const std::shared_ptr<Group>& group,
                                             const DataParallelOptimizerOptions& options = {},
                                             CallSite site = CallSite::here());
// Ascend's name for it.
inline DataParallelOptimizer npu_distributed_optimizer_wrapper(
    const Optimizer& optimizer, const std::shared_ptr<Group>& group,
    const DataParallelOptimizerOptions& options = {}, CallSite site = CallSite::here()) {
  return data_parallel(optimizer, group, options, site);
}

}  // namespace keel

#endif  // KEEL_OPS_NN_DATA_PARALLEL_H
