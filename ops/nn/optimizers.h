// Optimizers: from a loss, or from gradients, to the next value of every state they touch.
// Compositions of ops: the update runs on the device as part of the step. What they remember of a
// state "w" are states beside it ("w/momentum", "w/adam_m" ...), not trainable, saved and loaded
// like all others. Each application of an optimizer counts its own updates, so Adam's bias
// correction and schedules begin where it begins, whatever ran before or runs beside it; what it
// counts, where it is asked, is the steps that it had no part in ("keel/skipped/w/adam"), which is
// not saved where there are none. Plain values; building: one thread per graph.
//
//   auto train = keel::adam(0.001).minimize(loss);
//
//   auto train = minimize(loss, {{encoder.parameters(), kFrozen}, {head.parameters(), sgd(0.1)}});
//
//   auto states = trainable_states(loss);
//   auto clipped = clip_by_global_norm(gradients(loss, states), 1.0);  // ops/nn/clipping.h
//   auto train = sgd(cosine_decay(0.1, 1000), {.momentum = 0.9}).apply(states, clipped);
#ifndef KEEL_OPS_NN_OPTIMIZERS_H
#define KEEL_OPS_NN_OPTIMIZERS_H

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/update.h"
#include "keel/ops/nn/clipping.h"
#include "keel/ops/nn/schedules.h"
#include "keel/ops/nn/updates.h"

namespace keel {

// Holds what an optimizer's rule sees of one state in one step. All in f32, of f64 states in f64:
// what 16-bit states remember and how far they move would be lost in their own dtype, to which the
// next value alone is rounded.
class KEEL_API ParameterStep {
 public:
  // `rate` is a scalar of that dtype. What set() gets is added to `update`, whose applications
  // `count` counts; both must outlive this.
  ParameterStep(const std::string& optimizer, Value state, Value gradient, Value rate,
                CallSite site, Update& update, UpdateCount& count);

  Value state() const { return value_; }
  Value gradient() const { return gradient_; }
  // The learning rate, a scalar.
  Value rate() const { return rate_; }
  CallSite site() const { return site_; }
  // The state "<state>/<name>" of the same shape, zero at first. Throws Error where the graph has
  // it.
  Value slot(const std::string& name);
  // The next value of a slot.
  void set(Value slot, Value next);
  // 1 - beta^(updates + 1), of the updates that the optimizer has applied so far: a scalar, without
  // the cancellation of that formula.
  Value bias_correction(double beta);

 private:
  const std::string& optimizer_;
  Value state_;
  Value value_;
  Value gradient_;
  Value rate_;
  CallSite site_;
  Update& update_;
  UpdateCount& count_;
};

struct ParameterGroup;

class KEEL_API Optimizer {
 public:
  // The next value of the state, of the dtype of ParameterStep::state().
  using Rule = std::function<Value(ParameterStep&)>;
  // Throws Error where there is no rule.
  Optimizer(std::string name, const Schedule& rate, Rule rule, CallSite site = CallSite::here());
  // Moving copies, so that an optimizer that was moved from is still the one it was.
  Optimizer(const Optimizer&) = default;
  Optimizer& operator=(const Optimizer&) = default;

  // Assignments for every trainable float state that `loss` (a float scalar of the root graph)
  // depends on, and those that layers attached to values under it. Throws Error when there is no
  // such state, and where gradients() does.
  Update minimize(Operand loss, CallSite site = {}) const;
  // For these states only.
  Update minimize(Operand loss, const Values& states, CallSite site = {}) const;
  // With gradients of the user's making, one for each state and of its type; of a 16-bit state f32,
  // too, as LossScaler::unscaled and accumulate_gradients give them. Attached updates are not
  // included. A schedule that goes by the loss (reduce_on_plateau) needs it; Error without.
  Update apply(const Values& states, const Values& gradients,
               CallSite site = CallSite::here()) const;
  Update apply(const Values& states, const Values& gradients, Operand loss,
               CallSite site = CallSite::here()) const;

 private:
  // Each group's assignments: an application of its own, or a part of minimize()'s.
  struct Application;
  friend KEEL_API Update minimize(Operand loss, const std::vector<ParameterGroup>& groups,
                                  CallSite site);
  Update apply_with(const Values& states, const Values& gradients, Value loss, CallSite site) const;
  void apply_in(Application& application, const Values& states, const Values& gradients) const;

  std::string name_;
  Schedule rate_;
  Rule rule_;
};

// No optimizer: the parameters of a group stay as they are, and no gradient of them is computed.
inline constexpr std::nullopt_t kFrozen = std::nullopt;

struct ParameterGroup {
  Values parameters;
  std::optional<Optimizer> optimizer;  // or kFrozen
};

// Assignments for groups of parameters, each with an optimizer, and so a rate and a decay, of its
// own, from one backward pass; and the updates that layers attached to values under the loss.
//   minimize(loss, {{encoder.parameters(), kFrozen}, {head.parameters(), adamw(1e-3)}})
// Throws Error for a parameter in two groups, for a trainable state under the loss in none, which
// is mostly a slip (kFrozen says it), where no group has an optimizer, and where gradients() does.
KEEL_API Update minimize(Operand loss, const std::vector<ParameterGroup>& groups,
                         CallSite site = {});

struct SgdOptions {
  double momentum = 0;      // in [0, 1): v = momentum * v + g; w -= rate * v
  bool nesterov = false;    // w -= rate * (g + momentum * v)
  double weight_decay = 0;  // added to the gradient: g += weight_decay * w
};
KEEL_API Optimizer sgd(const Schedule& rate, SgdOptions options = {},
                       CallSite site = CallSite::here());

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;  // beside the root, after bias correction
};
KEEL_API Optimizer adam(const Schedule& rate, AdamOptions options = {},
                        CallSite site = CallSite::here());

struct AdamwOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  // decoupled: w -= rate * weight_decay * w
};
KEEL_API Optimizer adamw(const Schedule& rate, AdamwOptions options = {},
                         CallSite site = CallSite::here());

struct RmspropOptions {
  double decay = 0.9;     // v = decay * v + (1 - decay) * g * g
  double momentum = 0;    // of the scaled gradients
  double epsilon = 1e-8;  // beside the root
};
KEEL_API Optimizer rmsprop(const Schedule& rate, RmspropOptions options = {},
                           CallSite site = CallSite::here());

// Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023). Rates are 3 to 10 times
// smaller than Adam's, and weight decay as many times larger.
struct LionOptions {
  double beta1 = 0.9;       // of the sign: c = beta1 * m + (1 - beta1) * g
  double beta2 = 0.99;      // of what is kept: m = beta2 * m + (1 - beta2) * g
  double weight_decay = 0;  // decoupled: w -= rate * (sign(c) + weight_decay * w)
};
KEEL_API Optimizer lion(const Schedule& rate, LionOptions options = {},
                        CallSite site = CallSite::here());

// Duchi et al., "Adaptive Subgradient Methods" (2011): s += g * g; w -= rate * g / (sqrt(s) +
// epsilon).
struct AdagradOptions {
  double epsilon = 1e-10;   // beside the root
  double weight_decay = 0;  // added to the gradient: g += weight_decay * w
};
KEEL_API Optimizer adagrad(const Schedule& rate, AdagradOptions options = {},
                           CallSite site = CallSite::here());

// You et al., "Large Batch Optimization for Deep Learning" (2019): the step u of adamw, times
// |w| / |u| of each state (1 where either norm is 0): w -= rate * |w| / |u| * u, where u = m / c1 /
// (sqrt(v / c2) + epsilon) + weight_decay * w. Norms are computed in f32 at least.
struct LambOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;  // beside the root, after bias correction
  double weight_decay = 0.01;
};
KEEL_API Optimizer lamb(const Schedule& rate, LambOptions options = {},
                        CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_NN_OPTIMIZERS_H
