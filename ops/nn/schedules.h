// Schedules: the learning rate as a function of the updates applied so far, which are the steps
// done unless apply_if skips some. A function of graph.updates_applied() is part of the graph, so
// it is evaluated on the device and needs no host between steps; computed in f32. Plain values.
#ifndef KEEL_OPS_NN_SCHEDULES_H
#define KEEL_OPS_NN_SCHEDULES_H

#include <cstdint>
#include <functional>

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"

namespace keel {

class KEEL_API Schedule {
 public:
  // From the number of updates applied (f32 scalar; 0 in the first step) to the rate (f32 scalar).
  using Function = std::function<Value(Value updates, CallSite site)>;

  // The same rate at every step. Throws Error unless it is finite and >= 0.
  Schedule(double rate, CallSite site = CallSite::here());
  // Throws Error where there is no function.
  explicit Schedule(Function function, CallSite site = CallSite::here());
  // Moving copies, so that a schedule that was moved from is still the one it was.
  Schedule(const Schedule&) = default;
  Schedule& operator=(const Schedule&) = default;

  // The rate of the step that `graph` computes, a scalar of `dtype` (a float).
  Value at(Graph& graph, DType dtype, CallSite site) const;

 private:
  double rate_ = 0;
  Function function_;
};

// initial * factor^floor(updates / every).
KEEL_API Schedule step_decay(double initial, int64_t every, double factor,
                             CallSite site = CallSite::here());

struct CosineOptions {
  int64_t warmup_steps = 0;  // the rate first grows linearly: initial * (step + 1) / warmup_steps
  double final_rate = 0;     // from `steps` on
};
// Half a cosine from `initial`, at the end of the warm-up, to final_rate at `steps`.
KEEL_API Schedule cosine_decay(double initial, int64_t steps, CosineOptions options = {},
                               CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_NN_SCHEDULES_H
