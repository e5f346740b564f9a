#include "keel/ops/nn/optimizers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/ir/scopes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/reduce.h"

namespace keel {
namespace {

// By node id: what a value depends on.
std::vector<bool> nodes_under(Value value) {
  const Graph& graph = value.graph();
  std::vector<bool> under(graph.size(), false);
  under[value.node_id()] = true;
  for (uint32_t id = value.node_id() + 1; id-- > 0;) {
    if (!under[id]) continue;
    for (const Value& input : graph.node(id).inputs()) under[input.node_id()] = true;
  }
  return under;
}

Value require_root_value(const Operand& operand, const char* op, const char* argument,
                         CallSite site) {
  const Value value = require_value(operand, op, argument, site);
  if (value.graph().parent() == nullptr) return value;
  throw Error({.op = op,
               .argument = argument,
               .expected = "a value of the root graph, where states are",
               .got = described(value) + " inside a body of control flow" + made_at(value),
               .fix = "return it from the body first",
               .site = site});
}

void require_option(bool ok, const char* optimizer, const char* argument, const char* expected,
                    double got, CallSite site) {
  if (ok) return;
  throw Error({.op = optimizer,
               .argument = argument,
               .expected = expected,
               .got = std::to_string(got),
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

void require_fraction(double value, const char* optimizer, const char* argument, CallSite site) {
  require_option(value >= 0 && value < 1, optimizer, argument, "a number in [0, 1)", value, site);
}

void require_not_negative(double value, const char* optimizer, const char* argument,
                          CallSite site) {
  require_option(std::isfinite(value) && value >= 0, optimizer, argument, "a finite number >= 0",
                 value, site);
}

void require_epsilon(double value, const char* optimizer, CallSite site) {
  require_option(std::isfinite(value) && value > 0, optimizer, "epsilon", "a finite number > 0",
                 value, site);
}

void require_pair(const std::string& optimizer, const Value& state, const Value& gradient,
                  CallSite site) {
  if (!state.valid() || !state.node().is(OpRole::kState)) {
    throw Error({.op = optimizer,
                 .argument = "states",
                 .expected = "states",
                 .got = state.valid() ? described(state) + made_at(state) : described(state),
                 .site = site});
  }
  if (!gradient.valid() || gradient.type() != state.type()) {
    throw Error({.op = optimizer,
                 .argument = "gradient of " + name_of(state.node()),
                 .expected = to_string(state.type()),
                 .got = gradient.valid() ? to_string(gradient.type()) : "an empty Value",
                 .site = site});
  }
}

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
                 .got = std::to_string(epsilon),
                 .fix = "give a larger epsilon",
                 .site = site});
  }
  return add(root, epsilon, site);
}

// The step of Adam before the learning rate: m / c1 / (sqrt(v / c2) + epsilon), with the scalars
// gathered.
Value adam_step(ParameterStep& p, const AdamwOptions& o, const char* optimizer) {
  const CallSite site = p.site();
  const Value m = p.slot("adam_m");
  const Value v = p.slot("adam_v");
  const Value next_m = blend(m, p.gradient(), o.beta1, site);
  const Value next_v = blend(v, square(p.gradient(), site), o.beta2, site);
  p.set(m, next_m);
  p.set(v, next_v);
  const Value scale = rsqrt(p.bias_correction(o.beta2), site);
  const Value root = guarded_root(mul(sqrt(next_v, site), scale, site), o.epsilon, optimizer, site);
  const Value rate = div(p.rate(), p.bias_correction(o.beta1), site);
  return div(mul(next_m, rate, site), root, site);
}

void require_adam(const AdamwOptions& o, const char* optimizer, CallSite site) {
  require_fraction(o.beta1, optimizer, "beta1", site);
  require_fraction(o.beta2, optimizer, "beta2", site);
  require_epsilon(o.epsilon, optimizer, site);
  require_not_negative(o.weight_decay, optimizer, "weight_decay", site);
}

}  // namespace

Value ParameterStep::slot(const std::string& name) {
  const std::string full = name_of(state_.node()) + "/" + name;
  return state_.graph().state(full, zeros(state_.shape(), state_.dtype()), {.trainable = false},
                              site_);
}

void ParameterStep::set(Value slot, Value next) { update_.assignments.push_back({slot, next}); }

Value ParameterStep::bias_correction(double beta) const {
  const DType dtype = state_.dtype() == f64 ? f64 : f32;
  if (beta == 0) return state_.graph().constant(Tensor::full(state_.dtype(), {}, 1), site_);
  const Value steps =
      add(cast(Operand(state_.graph().updates_applied(), site_), dtype, site_), 1, site_);
  return cast(neg(expm1(mul(steps, std::log(beta), site_), site_), site_), state_.dtype(), site_);
}

Update apply_if(Operand predicate, const Update& update, CallSite site) {
  const CallSite line = site.known() ? site : predicate.site();
  const Value when = require_value(predicate, "apply_if", "predicate", line);
  if (when.type() != Type{boolean, {}}) {
    throw Error({.op = "apply_if",
                 .argument = "predicate",
                 .expected = to_string(Type{boolean, {}}),
                 .got = to_string(when.type()),
                 .site = line});
  }
  const Value applied = when.graph().updates_applied();
  Update result;
  for (const Assignment& a : update.assignments) {
    if (a.state == applied) {
      throw Error({.op = "apply_if",
                   .argument = "update",
                   .expected = "an update that is always applied",
                   .got = "one that apply_if made",
                   .fix = "join the predicates with logical_and",
                   .site = line});
    }
    result.assignments.push_back({a.state, select(when, a.next, a.state, line)});
  }
  result.assignments.push_back({applied, add(applied, cast(when, i64, line), line)});
  return result;
}

Optimizer::Optimizer(std::string name, Schedule rate, Rule rule, CallSite site)
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
  Update update = apply(states, gradients(value, states, line), line);
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
      throw Error({.op = "minimize",
                   .argument = group_title(g),
                   .expected = "parameters that no other group has",
                   .got = described(parameter) + ", which is in " + group_title(at->second),
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
  const Values all = gradients(value, trained, line);
  Update update;
  auto gradient = all.begin();
  for (const ParameterGroup& group : groups) {
    if (!group.optimizer) continue;
    const auto end = gradient + static_cast<std::ptrdiff_t>(group.parameters.size());
    update += group.optimizer->apply(group.parameters, Values(gradient, end), line);
    gradient = end;
  }
  update += attached_updates(Operand(value, line));
  return update;
}

Update Optimizer::apply(const Values& states, const Values& gradients, CallSite site) const {
  if (states.size() != gradients.size()) {
    throw Error({.op = name_,
                 .argument = "gradients",
                 .expected = std::to_string(states.size()) + ", one for each state",
                 .got = std::to_string(gradients.size()),
                 .site = site});
  }
  if (states.empty()) return {};
  // Nothing is added to the graph unless all of them fit.
  for (size_t i = 0; i < states.size(); ++i) require_pair(name_, states[i], gradients[i], site);
  Update update;
  std::map<DType, Value> rates;
  Graph& graph = states[0].graph();
  const LabelScope here(graph, with_inner_scope(graph.label(), name_));
  for (size_t i = 0; i < states.size(); ++i) {
    Value& rate = rates[states[i].dtype()];
    if (!rate.valid()) rate = rate_.at(states[i].graph(), states[i].dtype(), site);
    const LabelScope of_state(graph, with_inner_scope(graph.label(), name_of(states[i].node())));
    ParameterStep step(states[i], gradients[i], rate, site, update);
    const Value next = rule_(step);
    update.assignments.push_back({states[i], next});
  }
  return update;
}

Optimizer sgd(Schedule rate, SgdOptions options, CallSite site) {
  require_fraction(options.momentum, "sgd", "momentum", site);
  require_not_negative(options.weight_decay, "sgd", "weight_decay", site);
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

Optimizer adam(Schedule rate, AdamOptions options, CallSite site) {
  const AdamwOptions all{options.beta1, options.beta2, options.epsilon, 0};
  require_adam(all, "adam", site);
  return Optimizer("adam", rate, [all](ParameterStep& p) {
    return sub(p.state(), adam_step(p, all, "adam"), p.site());
  });
}

Optimizer adamw(Schedule rate, AdamwOptions options, CallSite site) {
  require_adam(options, "adamw", site);
  return Optimizer("adamw", rate, [options](ParameterStep& p) {
    const CallSite line = p.site();
    const Value kept = sub(Operand(1, line), mul(p.rate(), options.weight_decay, line), line);
    return sub(mul(p.state(), kept, line), adam_step(p, options, "adamw"), line);
  });
}

Optimizer rmsprop(Schedule rate, RmspropOptions options, CallSite site) {
  require_fraction(options.decay, "rmsprop", "decay", site);
  require_fraction(options.momentum, "rmsprop", "momentum", site);
  require_epsilon(options.epsilon, "rmsprop", site);
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

Values trainable_states(Operand value) {
  const Value root = require_root_value(value, "trainable_states", "value", value.site());
  const std::vector<bool> under = nodes_under(root);
  Values states;
  for (const Value& state : root.graph().states()) {
    if (state.node_id() < under.size() && under[state.node_id()] && is_float(state.dtype()) &&
        state.node().as<StateAttributes>().trainable) {
      states.push_back(state);
    }
  }
  return states;
}

namespace {

// `next` with `value` in place of the state that it is computed from. What does not depend on the
// state is shared, and so is what is `kept` (by node id).
Value computed_from(Value next, Value state, Value value, const std::vector<bool>& kept) {
  Graph& graph = state.graph();
  std::vector<uint32_t> between;
  std::vector<Value> open{next};
  std::unordered_set<uint32_t> seen;
  while (!open.empty()) {
    const Value v = open.back();
    open.pop_back();
    // What was made before the state cannot depend on it.
    if (v.node_id() <= state.node_id() || !seen.insert(v.node_id()).second) continue;
    if (v.node_id() < kept.size() && kept[v.node_id()]) continue;
    between.push_back(v.node_id());
    open.insert(open.end(), v.node().inputs().begin(), v.node().inputs().end());
  }
  std::sort(between.begin(), between.end());
  std::unordered_map<Value, Value, ValueHash> replaced{{state, value}};
  for (const uint32_t id : between) {
    const Node& node = graph.node(id);
    Values inputs = node.inputs().to_vector();
    bool changed = false;
    for (Value& input : inputs) {
      const auto other = replaced.find(input);
      changed = changed || other != replaced.end();
      if (other != replaced.end()) input = other->second;
    }
    if (!changed) continue;
    const LabelScope label(graph, node);
    const Node& copy = graph.add(node.op(), inputs, node.attributes(), node.site(), node.bodies());
    for (uint32_t i = 0; i < node.types().size(); ++i)
      replaced.emplace(node.output(i), copy.output(i));
  }
  const auto result = replaced.find(next);
  return result == replaced.end() ? next : result->second;
}

}  // namespace

Update attached_updates(Operand value) {
  const Value root = require_root_value(value, "attached_updates", "value", value.site());
  const std::vector<bool> under = nodes_under(root);
  Update update;
  // By state: the outputs of its calls so far, and what those were computed from.
  std::unordered_map<Value, std::vector<bool>, ValueHash> computed;
  // A copy: computing one from another adds to the graph.
  const std::vector<AttachedUpdate> all = root.graph().attached_updates();
  for (const AttachedUpdate& attached : all) {
    const uint32_t output = attached.output.node_id();
    if (output >= under.size() || !under[output]) continue;
    const auto before =
        std::find_if(update.assignments.begin(), update.assignments.end(),
                     [&](const Assignment& a) { return a.state == attached.state; });
    std::vector<bool>& kept = computed[attached.state];
    if (before == update.assignments.end()) {
      update.assignments.push_back({attached.state, attached.next});
    } else {
      if (attached.observed.valid()) {
        kept.resize(std::max<size_t>(kept.size(), attached.observed.node_id() + 1), false);
        kept[attached.observed.node_id()] = true;
      }
      before->next = computed_from(attached.next, attached.state, before->next, kept);
    }
    const std::vector<bool> here = nodes_under(attached.output);
    kept.resize(std::max(kept.size(), here.size()), false);
    for (size_t id = 0; id < here.size(); ++id) kept[id] = kept[id] || here[id];
  }
  return update;
}

Value global_norm(const Values& gradients, CallSite site) {
  DType dtype = f32;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string argument = "gradient " + std::to_string(i);
    if (require_value(Operand(gradients[i], site), "global_norm", argument.c_str()).dtype() == f64)
      dtype = f64;
  }
  if (gradients.empty())
    throw Error(
        {.op = "global_norm", .expected = "at least one gradient", .got = "none", .site = site});
  const auto root_of_squares = [&](double scale) {
    Value total;
    for (const Value& g : gradients) {
      Value wide = cast(Operand(g, site), dtype, site);
      if (scale != 1) wide = mul(wide, scale, site);
      const Value squares = sum(square(wide, site), {}, false, site);
      total = total.valid() ? add(total, squares, site) : squares;
    }
    return sqrt(total, site);
  };
  // Squares of large elements are infinite. Scaled down by a power of two they are not, nor is the
  // sum of as many as fit into memory; where nothing overflows, nothing is rounded differently.
  const int down = dtype == f64 ? 600 : 80;
  const double largest =
      dtype == f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const Value plain = root_of_squares(1);
  const Value scaled = mul(root_of_squares(std::ldexp(1.0, -down)), std::ldexp(1.0, down), site);
  return select(greater(plain, largest, site), scaled, plain, site);
}

Values clip_by_global_norm(const Values& gradients, double max_norm, CallSite site) {
  require_option(std::isfinite(max_norm) && max_norm > 0, "clip_by_global_norm", "max_norm",
                 "a finite number > 0", max_norm, site);
  const Value norm = global_norm(gradients, site);
  const Value scale = div(Operand(max_norm, site), maximum(norm, max_norm, site), site);
  Values clipped;
  for (const Value& g : gradients) clipped.push_back(mul(g, cast(scale, g.dtype(), site), site));
  return clipped;
}

}  // namespace keel
