#include "keel/ops/nn/optimizers.h"

#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "keel/core/base/printable.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/precision/keep_dtype.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/argument_checks.h"
#include "keel/ops/nn/in_name_of.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/remembered.h"
#include "keel/ops/reduce.h"

namespace keel {
namespace {

// scale * a + (1 - scale) * b: a running mean.
Value blend(Value a, Value b, double scale, CallSite site) {
  return add(mul(a, scale, site), mul(b, 1 - scale, site), site);
}

// sqrt(x) + epsilon; an epsilon that the dtype rounds to 0 would let 0 / 0 through.
Value guarded_root(Value root, double epsilon, const char* optimizer, CallSite site) {
  const Tensor rounded = Tensor::full(root.dtype(), {}, epsilon);
  if (rounded.at(0) == 0) {
    throw Error({.op = optimizer,
                 .argument = "epsilon",
                 .expected = std::string("a number that is not 0 in ") + name_of(root.dtype()),
                 .got = printable(epsilon),
                 .fix = "give a larger epsilon",
                 .site = site});
  }
  return add(root, epsilon, site);
}

// The direction of Adam, times `rate`: rate * m / c1 / (sqrt(v / c2) + epsilon), with the scalars
// gathered.
Value adam_step(ParameterStep& p, Value rate, const AdamwOptions& o, const char* optimizer) {
  const CallSite site = p.site();
  const Value m = p.slot("adam_m");
  const Value v = p.slot("adam_v");
  const Value next_m = blend(m, p.gradient(), o.beta1, site);
  const Value next_v = blend(v, square(p.gradient(), site), o.beta2, site);
  p.set(m, next_m);
  p.set(v, next_v);
  const Value scale = rsqrt(p.bias_correction(o.beta2), site);
  const Value root = guarded_root(mul(sqrt(next_v, site), scale, site), o.epsilon, optimizer, site);
  const Value corrected = div(rate, p.bias_correction(o.beta1), site);
  return div(mul(next_m, corrected, site), root, site);
}

void require_adam(const AdamwOptions& o, const char* optimizer, CallSite site) {
  require_fraction(o.beta1, optimizer, "beta1", site);
  require_fraction(o.beta2, optimizer, "beta2", site);
  require_positive_f32(o.epsilon, optimizer, "epsilon", site);
  require_not_negative_f32(o.weight_decay, optimizer, "weight_decay", site);
}

Values slopes_of(const Value& loss, const Values& states, CallSite site) {
  return in_name_of({"minimize", {{"y", "loss"}, {"x", "state"}}, "gradient"},
                    [&] { return gradients(loss, states, site); });
}

}  // namespace

ParameterStep::ParameterStep(const std::string& optimizer, Value state, Value gradient, Value rate,
                             CallSite site, Update& update, UpdateCount& count)
    : optimizer_(optimizer),
      state_(state),
      value_(cast(Operand(state, site), memory_dtype(state.dtype()), site)),
      gradient_(cast(Operand(gradient, site), memory_dtype(state.dtype()), site)),
      rate_(rate),
      site_(site),
      update_(update),
      count_(count) {}

Value ParameterStep::slot(const std::string& name) {
  return remembered(state_.graph(), optimizer_, name_of(state_.node()) + "/" + name,
                    zeros(value_.shape(), value_.dtype()),
                    "apply an optimizer that remembers to each state once", site_);
}

void ParameterStep::set(Value slot, Value next) { update_.assignments.push_back({slot, next}); }

Value ParameterStep::bias_correction(double beta) {
  const DType dtype = value_.dtype();
  if (beta == 0) return state_.graph().constant(Tensor::full(dtype, {}, 1), site_);
  const Value steps = add(cast(Operand(count_.applied(), site_), dtype, site_), 1, site_);
  return neg(expm1(mul(steps, std::log(beta), site_), site_), site_);
}

// One update of states that are always applied together, and what it is made with.
struct Optimizer::Application {
  Application(Value first, const std::string& who, Value loss, Update& to, CallSite site)
      : update(to),
        count(std::make_shared<UpdateCount>(first.graph(), name_of(first.node()) + "/" + who, to,
                                            site)),
        schedule(first.graph(), loss, to, count, site) {}

  Update& update;
  std::shared_ptr<UpdateCount> count;
  ScheduleStep schedule;
};

Optimizer::Optimizer(std::string name, const Schedule& rate, Rule rule, CallSite site)
    : name_(std::move(name)), rate_(rate), rule_(std::move(rule)) {
  if (rule_ != nullptr) return;
  throw Error({.op = name_,
               .argument = "rule",
               .expected = "a function that gives a state's next value",
               .got = "none",
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

Update Optimizer::minimize(Operand loss, CallSite site) const {
  const CallSite line = site.known() ? site : loss.site();
  const Value value = require_root_value(loss, "minimize", "loss", line);
  const Values states = trainable_states(value);
  if (states.empty()) {
    throw Error({.op = "minimize",
                 .argument = "loss",
                 .expected = "a value that depends on trainable states",
                 .got = "one that depends on none",
                 .fix = "make the parameters with graph.state()",
                 .site = line});
  }
  return minimize(loss, states, line);
}

Update Optimizer::minimize(Operand loss, const Values& states, CallSite site) const {
  const CallSite line = site.known() ? site : loss.site();
  const Value value = require_root_value(loss, "minimize", "loss", line);
  if (states.empty()) {
    throw Error({.op = "minimize",
                 .argument = "states",
                 .expected = "at least one state to train",
                 .got = "none",
                 .fix = "leave the list out to train all that the loss depends on",
                 .site = line});
  }
  Update update = apply_with(states, slopes_of(value, states, line), value, line);
  update += attached_updates(value);
  return update;
}

namespace {

std::string group_title(size_t group) { return "group " + std::to_string(group); }

// Throws Error unless each trainable state under the loss is in one group.
void require_partition(const Value& loss, const std::vector<ParameterGroup>& groups,
                       CallSite site) {
  std::unordered_map<Value, size_t, ValueHash> group_of;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const Value& parameter : groups[g].parameters) {
      const auto [at, fresh] = group_of.emplace(parameter, g);
      if (fresh) continue;
      const bool here = at->second == g;
      throw Error({.op = "minimize",
                   .argument = group_title(g),
                   .expected = here ? "each parameter once" : "parameters that no other group has",
                   .got = described(parameter) +
                          (here ? " twice" : ", which is in " + group_title(at->second)),
                   .site = site});
    }
  }
  for (const Value& state : trainable_states(Operand(loss, site))) {
    if (group_of.contains(state)) continue;
    throw Error({.op = "minimize",
                 .argument = "groups",
                 .expected = "each trainable state under the loss in a group",
                 .got = described(state) + " in none" + made_at(state),
                 .fix = "add it to one, or {{it}, kFrozen}",
                 .site = site});
  }
}

}  // namespace

Update minimize(Operand loss, const std::vector<ParameterGroup>& groups, CallSite site) {
  const CallSite line = site.known() ? site : loss.site();
  const Value value = require_root_value(loss, "minimize", "loss", line);
  require_partition(value, groups, line);
  Values trained;
  for (const ParameterGroup& group : groups) {
    if (group.optimizer)
      trained.insert(trained.end(), group.parameters.begin(), group.parameters.end());
  }
  if (trained.empty()) {
    throw Error({.op = "minimize",
                 .argument = "groups",
                 .expected = "a group of parameters with an optimizer",
                 .got = groups.empty() ? "no groups" : "frozen or empty ones only",
                 .site = line});
  }
  const Values all = slopes_of(value, trained, line);
  Update update;
  Optimizer::Application application(trained[0], "minimize", value, update, line);
  auto gradient = all.begin();
  for (const ParameterGroup& group : groups) {
    if (!group.optimizer) continue;
    const auto end = gradient + static_cast<std::ptrdiff_t>(group.parameters.size());
    group.optimizer->apply_in(application, group.parameters, Values(gradient, end));
    gradient = end;
  }
  update += attached_updates(Operand(value, line));
  return update;
}

Update Optimizer::apply(const Values& states, const Values& gradients, CallSite site) const {
  return apply_with(states, gradients, {}, site);
}

Update Optimizer::apply(const Values& states, const Values& gradients, Operand loss,
                        CallSite site) const {
  return apply_with(states, gradients, require_root_value(loss, name_.c_str(), "loss", site), site);
}

Update Optimizer::apply_with(const Values& states, const Values& gradients, Value loss,
                             CallSite site) const {
  require_gradients(name_, states, gradients, site);
  if (states.empty()) return {};
  Update update;
  Application application(states[0], name_, loss, update, site);
  apply_in(application, states, gradients);
  return update;
}

void Optimizer::apply_in(Application& application, const Values& states,
                         const Values& gradients) const {
  const CallSite site = application.schedule.site();
  require_gradients(name_, states, gradients, site);
  if (states.empty()) return;
  std::map<DType, Value> rates;
  Graph& graph = states[0].graph();
  const LabelScope here(graph, with_inner_scope(graph.label(), name_));
  // Ops that change a state compute in its dtype under every precision mode: gradients may be low.
  const KeepDtypeScope exact(graph, site);
  for (size_t i = 0; i < states.size(); ++i) {
    const DType dtype = memory_dtype(states[i].dtype());
    Value& rate = rates[dtype];
    if (!rate.valid()) rate = rate_.at(application.schedule, dtype);
    const LabelScope of_state(graph, with_inner_scope(graph.label(), name_of(states[i].node())));
    ParameterStep step(name_, states[i], gradients[i], rate, site, application.update,
                       *application.count);
    const Value next = rule_(step);
    if (!next.valid()) {
      throw Error({.op = name_,
                   .argument = "rule",
                   .expected = "the next value of " + described(states[i]),
                   .got = described(next),
                   .site = site});
    }
    application.update.assignments.push_back({states[i], cast(next, states[i].dtype(), site)});
  }
}

Optimizer sgd(const Schedule& rate, SgdOptions options, CallSite site) {
  require_fraction(options.momentum, "sgd", "momentum", site);
  require_not_negative_f32(options.weight_decay, "sgd", "weight_decay", site);
  require_option(!options.nesterov || options.momentum > 0, "sgd", "nesterov",
                 "a momentum above 0 beside it", options.momentum, site);
  return Optimizer("sgd", rate, [options](ParameterStep& p) {
    const CallSite line = p.site();
    Value step = p.gradient();
    if (options.weight_decay != 0)
      step = add(step, mul(p.state(), options.weight_decay, line), line);
    if (options.momentum != 0) {
      const Value velocity = p.slot("momentum");
      const Value next = add(mul(velocity, options.momentum, line), step, line);
      p.set(velocity, next);
      step = options.nesterov ? add(step, mul(next, options.momentum, line), line) : next;
    }
    return sub(p.state(), mul(step, p.rate(), line), line);
  });
}

Optimizer adam(const Schedule& rate, AdamOptions options, CallSite site) {
  const AdamwOptions all{options.beta1, options.beta2, options.epsilon, 0};
  require_adam(all, "adam", site);
  return Optimizer("adam", rate, [all](ParameterStep& p) {
    return sub(p.state(), adam_step(p, p.rate(), all, "adam"), p.site());
  });
}

Optimizer adamw(const Schedule& rate, AdamwOptions options, CallSite site) {
  require_adam(options, "adamw", site);
  return Optimizer("adamw", rate, [options](ParameterStep& p) {
    const CallSite line = p.site();
    const Value kept = sub(Operand(1, line), mul(p.rate(), options.weight_decay, line), line);
    return sub(mul(p.state(), kept, line), adam_step(p, p.rate(), options, "adamw"), line);
  });
}

Optimizer rmsprop(const Schedule& rate, RmspropOptions options, CallSite site) {
  require_fraction(options.decay, "rmsprop", "decay", site);
  require_fraction(options.momentum, "rmsprop", "momentum", site);
  require_positive_f32(options.epsilon, "rmsprop", "epsilon", site);
  return Optimizer("rmsprop", rate, [options](ParameterStep& p) {
    const CallSite line = p.site();
    const Value mean_square = p.slot("rmsprop_v");
    const Value next = blend(mean_square, square(p.gradient(), line), options.decay, line);
    p.set(mean_square, next);
    Value step =
        div(p.gradient(), guarded_root(sqrt(next, line), options.epsilon, "rmsprop", line), line);
    if (options.momentum != 0) {
      const Value velocity = p.slot("momentum");
      step = add(mul(velocity, options.momentum, line), step, line);
      p.set(velocity, step);
    }
    return sub(p.state(), mul(step, p.rate(), line), line);
  });
}

Optimizer lion(const Schedule& rate, LionOptions options, CallSite site) {
  require_fraction(options.beta1, "lion", "beta1", site);
  require_fraction(options.beta2, "lion", "beta2", site);
  require_not_negative_f32(options.weight_decay, "lion", "weight_decay", site);
  return Optimizer("lion", rate, [options](ParameterStep& p) {
    const CallSite line = p.site();
    const Value m = p.slot("lion_m");
    Value step = sign(blend(m, p.gradient(), options.beta1, line), line);
    p.set(m, blend(m, p.gradient(), options.beta2, line));
    if (options.weight_decay != 0)
      step = add(step, mul(p.state(), options.weight_decay, line), line);
    return sub(p.state(), mul(step, p.rate(), line), line);
  });
}

Optimizer adagrad(const Schedule& rate, AdagradOptions options, CallSite site) {
  require_positive_f32(options.epsilon, "adagrad", "epsilon", site);
  require_not_negative_f32(options.weight_decay, "adagrad", "weight_decay", site);
  return Optimizer("adagrad", rate, [options](ParameterStep& p) {
    const CallSite line = p.site();
    Value gradient = p.gradient();
    if (options.weight_decay != 0)
      gradient = add(gradient, mul(p.state(), options.weight_decay, line), line);
    const Value squares = p.slot("adagrad_s");
    const Value next = add(squares, square(gradient, line), line);
    p.set(squares, next);
    const Value root = guarded_root(sqrt(next, line), options.epsilon, "adagrad", line);
    return sub(p.state(), mul(div(gradient, root, line), p.rate(), line), line);
  });
}

Optimizer lamb(const Schedule& rate, LambOptions options, CallSite site) {
  const AdamwOptions adam{options.beta1, options.beta2, options.epsilon, options.weight_decay};
  require_adam(adam, "lamb", site);
  return Optimizer("lamb", rate, [adam](ParameterStep& p) {
    const CallSite line = p.site();
    const Value one = p.state().graph().constant(Tensor::full(p.state().dtype(), {}, 1), line);
    Value step = adam_step(p, one, adam, "lamb");
    if (adam.weight_decay != 0) step = add(step, mul(p.state(), adam.weight_decay, line), line);
    const Value weight_norm = global_norm({p.state()}, line);
    const Value step_norm = global_norm({step}, line);
    const Value known =
        logical_and(greater(weight_norm, 0, line), greater(step_norm, 0, line), line);
    const Value trust =
        div(select(known, weight_norm, 1, line), select(known, step_norm, 1, line), line);
    const Value scale = mul(p.rate(), cast(trust, p.state().dtype(), line), line);
    return sub(p.state(), mul(step, scale, line), line);
  });
}

}  // namespace keel
