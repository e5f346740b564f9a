// Schedules: the learning rate as a function of the updates that its optimizer has applied so far,
// or of the losses seen. Steps that apply_if skips, or that run another update, do not count. It is
// part of the graph, so it is evaluated on the device and needs no host between steps; computed in
// f32. Plain values.
#ifndef KEEL_OPS_NN_SCHEDULES_H
#define KEEL_OPS_NN_SCHEDULES_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/update.h"

namespace keel {

class UpdateCount;

// Holds what a schedule sees of one step. Made by the optimizer; valid while that builds its
// update.
class KEEL_API ScheduleStep {
 public:
  // `loss` may be invalid. What set() gets is added to `update`, which must outlive this.
  ScheduleStep(Graph& graph, Value loss, Update& update, CallSite site);
  // For optimizers, which share the count of their updates with their schedules.
  ScheduleStep(Graph& graph, Value loss, Update& update, std::shared_ptr<UpdateCount> count,
               CallSite site);

  // The number of updates that the optimizer has applied so far: f32 scalar, 0 in its first step.
  Value updates();
  // The loss of this step, f32 scalar. Throws Error where the optimizer was given none.
  Value loss() const;
  // Makes a state that the schedule remembers: not trainable, saved and loaded like all states.
  Value state(const std::string& name, const Initializer& init);
  // The next value of such a state.
  void set(Value state, Value next) { update_.assignments.push_back({state, next}); }
  Graph& graph() const { return graph_; }
  CallSite site() const { return site_; }

 private:
  friend class Schedule;
  Graph& graph_;
  Value loss_;
  Update& update_;
  std::shared_ptr<UpdateCount> count_;
  CallSite site_;
  Value updates_;
  // By schedule: made once for states of all dtypes and groups. The entries keep their schedules'
  // functions alive, since a later schedule may be made where one lay that is gone.
  std::unordered_map<std::shared_ptr<const void>, Value> rates_;
};

class KEEL_API Schedule {
 public:
  // From the number of updates that the optimizer has applied (f32 scalar; 0 in its first step) to
  // the rate (f32 scalar).
  using Function = std::function<Value(Value updates, CallSite site)>;
  // From whatever else a step knows, and what the schedule remembers, to the rate (f32 scalar).
  using StepFunction = std::function<Value(ScheduleStep&)>;

  // The same rate at every step. Throws Error unless it is >= 0 and finite in f32.
  Schedule(double rate, CallSite site = CallSite::here());
  // Throws Error where there is no function.
  explicit Schedule(Function function, CallSite site = CallSite::here());
  explicit Schedule(StepFunction function, CallSite site = CallSite::here());
  // Moving copies, so that a schedule that was moved from is still the one it was.
  Schedule(const Schedule&) = default;
  Schedule& operator=(const Schedule&) = default;

  // The rate of the step, a scalar of `dtype` (a float).
  Value at(ScheduleStep& step, DType dtype) const;

 private:
  double rate_ = 0;
  std::shared_ptr<const StepFunction> function_;  // of all copies: by it they are one schedule
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

struct PolynomialOptions {
  int64_t warmup_steps = 0;  // the rate first grows linearly: initial * (step + 1) / warmup_steps
  double final_rate = 0;     // from `steps` on
  double power = 1;          // 1 is a straight line
};
// final_rate + (initial - final_rate) * (1 - progress)^power, where progress goes from 0, at the
// end of the warm-up, to 1 at `steps`.
KEEL_API Schedule polynomial_decay(double initial, int64_t steps, PolynomialOptions options = {},
                                   CallSite site = CallSite::here());

struct OneCycleOptions {
  double warmup = 0.3;           // share of the steps that the rate rises in
  double first_divisor = 25;     // the rate begins at peak / first_divisor
  double last_divisor = 250000;  // and ends at peak / last_divisor
};
// Smith and Topin, "Super-Convergence" (2018), as PyTorch's OneCycleLR: half a cosine up to `peak`
// in step warmup * steps - 1, another one down to the end in step `steps` - 1, where it stays. The
// first step is step 0.
KEEL_API Schedule one_cycle(double peak, int64_t steps, OneCycleOptions options = {},
                            CallSite site = CallSite::here());

struct PlateauOptions {
  double factor = 0.1;           // of the rate, each time the loss stands still
  int64_t patience = 10;         // looks in a row without an improvement that are let pass
  int64_t every = 1;             // updates from look to look, which sees the mean of their losses
  double threshold = 1e-4;       // an improvement is a loss below best - threshold * |best|
  double final_rate = 0;         // the rate does not fall below
  std::string name = "plateau";  // of its states; two schedules in one graph need two names, but
                                 // groups of one minimize() may share one
};
// The rate falls where the training loss does not: after `patience` + 1 looks in a row without an
// improvement, and then counts anew. A loss that is NaN is no improvement. It is looked at within
// the step, on the device, so the bits do not depend on the loop size; what it remembers are the
// states "<name>/best", "<name>/waited", "<name>/scale" and, where every > 1, "<name>/loss_sum" and
// "<name>/losses". For minimize(), or apply() with the loss.
KEEL_API Schedule reduce_on_plateau(double initial, PlateauOptions options = {},
                                    CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_NN_SCHEDULES_H
