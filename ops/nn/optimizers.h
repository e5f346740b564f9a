// Optimizers: from a loss, or from gradients, to the next value of every state they touch.
// Compositions of ops: the update runs on the device as part of the step. What they remember of a
// state "w" are states beside it ("w/momentum", "w/adam_m" ...), not trainable, saved and loaded
// like all others. Plain values; building: one thread per graph.
//
//   auto train = keel::adam(0.001).minimize(loss);
//
//   auto train = minimize(loss, {{encoder.parameters(), kFrozen}, {head.parameters(), sgd(0.1)}});
//
//   auto states = trainable_states(loss);
//   auto clipped = clip_by_global_norm(gradients(loss, states), 1.0);
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
#include "keel/ops/nn/schedules.h"

namespace keel {

// What an optimizer's rule sees of one state in one step.
class KEEL_API ParameterStep {
 public:
  ParameterStep(Value state, Value gradient, Value rate, CallSite site, Update& update)
      : state_(state), gradient_(gradient), rate_(rate), site_(site), update_(update) {}

  Value state() const { return state_; }
  Value gradient() const { return gradient_; }
  // The learning rate, a scalar of the state's dtype.
  Value rate() const { return rate_; }
  CallSite site() const { return site_; }
  // The state "<state>/<name>" of the same type, zero at first.
  Value slot(const std::string& name);
  // The next value of a slot.
  void set(Value slot, Value next);
  // 1 - beta^(updates + 1), of the updates applied so far: a scalar of the state's dtype, without
  // the cancellation of that formula.
  Value bias_correction(double beta) const;

 private:
  Value state_;
  Value gradient_;
  Value rate_;
  CallSite site_;
  Update& update_;
};

class KEEL_API Optimizer {
 public:
  // The next value of the state.
  using Rule = std::function<Value(ParameterStep&)>;
  // Throws Error where there is no rule.
  Optimizer(std::string name, Schedule rate, Rule rule, CallSite site = CallSite::here());
  // Moving copies, so that an optimizer that was moved from is still the one it was.
  Optimizer(const Optimizer&) = default;
  Optimizer& operator=(const Optimizer&) = default;

  // Assignments for every trainable float state that `loss` (a float scalar of the root graph)
  // depends on, and those that layers attached to values under it. Throws Error when there is no
  // such state, and where gradients() does.
  Update minimize(Operand loss, CallSite site = {}) const;
  // For these states only.
  Update minimize(Operand loss, const Values& states, CallSite site = {}) const;
  // With gradients of the user's making, one for each state and of its type. Attached updates are
  // not included.
  Update apply(const Values& states, const Values& gradients,
               CallSite site = CallSite::here()) const;

 private:
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

// The same update, applied only in steps in which `predicate` (a bool scalar of the step) is true.
// In the others every state keeps its bits, running statistics included: keel/step and random
// numbers go on, keel/updates, and with it schedules and Adam's bias correction, do not. Throws
// Error for a predicate that is no bool scalar of the update's graph, and for an update that has a
// predicate already.
KEEL_API Update apply_if(Operand predicate, const Update& update, CallSite site = CallSite::here());

struct SgdOptions {
  double momentum = 0;      // in [0, 1): v = momentum * v + g; w -= rate * v
  bool nesterov = false;    // w -= rate * (g + momentum * v)
  double weight_decay = 0;  // added to the gradient: g += weight_decay * w
};
KEEL_API Optimizer sgd(Schedule rate, SgdOptions options = {}, CallSite site = CallSite::here());

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;  // beside the root, after bias correction
};
KEEL_API Optimizer adam(Schedule rate, AdamOptions options = {}, CallSite site = CallSite::here());

struct AdamwOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  // decoupled: w -= rate * weight_decay * w
};
KEEL_API Optimizer adamw(Schedule rate, AdamwOptions options = {},
                         CallSite site = CallSite::here());

struct RmspropOptions {
  double decay = 0.9;     // v = decay * v + (1 - decay) * g * g
  double momentum = 0;    // of the scaled gradients
  double epsilon = 1e-8;  // beside the root
};
KEEL_API Optimizer rmsprop(Schedule rate, RmspropOptions options = {},
                           CallSite site = CallSite::here());

// The trainable float states that `value` depends on, in the order they were made.
KEEL_API Values trainable_states(Operand value);
// The updates that layers attached to values under `value` (running statistics). Of several for one
// state, which is a layer that was called more than once, each goes on from the one before: it is
// computed again with that one's next value in place of the state. But what it observed
// (Graph::attach_update), the outputs of the calls before and all that these were computed from
// stay as they are, since the loss is made of them. What is attached elsewhere counts for nothing.
KEEL_API Update attached_updates(Operand value);

// sqrt(sum of the squares of all elements), in f32 (f64 where one of them is f64). Squares that
// are too large for it do no harm; a norm that is too large itself is infinite, and clips to 0.
KEEL_API Value global_norm(const Values& gradients, CallSite site = CallSite::here());
// All scaled by the same factor so that their global norm is at most max_norm; unchanged where it
// is.
KEEL_API Values clip_by_global_norm(const Values& gradients, double max_norm,
                                    CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_NN_OPTIMIZERS_H
