// Loss scaling: gradients that f16 could not hold are computed of a loss that is so many times
// larger, and divided again. A step whose gradients overflowed is skipped: states, running
// statistics and keel/updates stay as they are, keel/step goes on. The scale is fixed, which makes
// no states, or it grows after good steps and shrinks after bad ones; then it is a state, so it is
// saved, and resuming in the middle of a growth interval is exact. All are compositions of ops.
// Building: one thread per graph.
//
//   LossScaler scaler(loss.graph(), ExponentialLossScale{});
//   auto states = trainable_states(loss);
//   auto slopes = scaler.unscaled(gradients(scaler.scaled(loss), states));
//   auto finite = scaler.finite(slopes);
//   auto update = adam(0.001).apply(states, slopes, loss);
//   update += attached_updates(loss);
//   auto train = apply_if(finite, update);
//   train += scaler.update(finite);                  // every step
//
// Its nodes compute in their own dtypes under every precision mode.
#ifndef KEEL_OPS_NN_LOSS_SCALE_H
#define KEEL_OPS_NN_LOSS_SCALE_H

#include <cstdint>
#include <string>
#include <variant>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/update.h"

namespace keel {

// The same scale in every step.
struct FixedLossScale {
  double scale = 1;                   // at least 1, at most 3.4e38
  bool enable_overflow_check = true;  // else finite() is always true
};

// Names, defaults and rules are those of Ascend's ExponentialUpdateLossScaleManager. A good step
// adds 1 to the good ones, and after incr_every_n_steps of them the scale is multiplied by
// incr_ratio, where it stays under 3.4e38. A bad step adds 1 to the bad ones and clears the good
// ones, and after decr_every_n_nan_or_inf of them the scale is multiplied by decr_ratio, but stays
// at least 1. Either change clears both counts; a good step does not clear the bad ones.
struct ExponentialLossScale {
  double init_loss_scale = 65536;
  int64_t incr_every_n_steps = 1000;
  int64_t decr_every_n_nan_or_inf = 2;
  double incr_ratio = 2;
  double decr_ratio = 0.8;
};

using LossScale = std::variant<FixedLossScale, ExponentialLossScale>;

class KEEL_API LossScaler {
 public:
  // Makes, of an exponential scale, the states "<name>/scale" (f32), "<name>/good_steps" and
  // "<name>/bad_steps" (i64); a fixed one is a constant, and its name is not used. Two exponential
  // scales of a graph have two names. Throws Error for a scale below 1, counts below 1, a growth
  // below 1, either of them above 3.4e38, and a shrinking that is not in (0, 1).
  LossScaler(Graph& graph, const LossScale& scale, std::string name = "loss_scale",
             CallSite site = CallSite::here());

  // Returns the scale of this step, an f32 scalar.
  Value scale() const noexcept { return scale_; }
  // Returns loss * scale, in the loss's dtype. Throws Error for a fixed scale that does not fit it.
  Value scaled(Operand loss, CallSite site = {}) const;
  // Returns the gradients divided by the scale, those of 16 bits in f32: in their own dtype what
  // the scale has saved would be lost again. Optimizers, accumulate_gradients and clipping take
  // them so. Throws Error for gradients that are no floats.
  Values unscaled(const Values& gradients, CallSite site = CallSite::here()) const;
  // Returns a bool scalar of gradients, scaled or unscaled: all are finite, and nothing they depend
  // on was stopped at the largest f16 (float_status). Without an overflow check it is always true.
  Value finite(const Values& gradients, CallSite site = CallSite::here()) const;
  // Returns the next values of the scaler's states, which every step needs: `finite` says whether
  // it was a good one. Steps in which `when` (a bool scalar) is false count for nothing, as those
  // of micro-batches before the last. A fixed scale has none. Throws Error for flags that are no
  // bool scalars of the root graph, but for a `when` that is not given.
  Update update(Value finite, Value when = {}, CallSite site = CallSite::here()) const;

 private:
  Update exponential_update(const ExponentialLossScale& rule, Value finite, Value when,
                            CallSite site) const;

  Graph* graph_;
  LossScale rule_;
  Value scale_, good_steps_, bad_steps_;
};

// Returns a bool scalar: no element of the values is infinite or NaN.
KEEL_API Value all_finite(const Values& values, CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_NN_LOSS_SCALE_H
