#include "keel/ops/nn/updates.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "keel/graph/ir/scopes.h"
#include "keel/graph/ir/skipped_steps.h"
#include "keel/graph/precision/keep_dtype.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/argument_checks.h"
#include "keel/ops/nn/computed_from.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/remembered.h"

namespace keel {
namespace {

bool is_trainable(const Value& state) {
  return is_float(state.dtype()) && state.node().as<StateAttributes>().trainable;
}

// Throws Error for an update that apply_if made.
void require_always_applied(const char* who, const Update& update, const Graph& graph,
                            const char* fix, CallSite site) {
  const Value applied = graph.find_state(kUpdatesState);
  for (const Assignment& a : update.assignments) {
    if (!applied.valid() || a.state != applied) continue;
    throw Error({.op = who,
                 .argument = "update",
                 .expected = "an update that is always applied",
                 .got = "one that apply_if made",
                 .fix = fix,
                 .site = site});
  }
}

// States that add up over micro-batches, and become 0 for the next update behind the last of them.
class MicroBatches {
 public:
  MicroBatches(Graph& graph, int64_t count, const AccumulateOptions& options, Accumulated& result,
               CallSite site)
      : graph_(graph),
        count_(static_cast<double>(count)),
        prefix_(options.name.empty() ? "" : options.name + "/"),
        result_(result),
        site_(site) {
    const Value before = state(prefix_ + "accumulated/micro_batches", {i64, {}});
    const Value now = add(before, 1, site);
    result.complete = greater_equal(now, count, site);
    keep(before, now);
    if (options.sound.valid()) count_unsound(options.sound);
  }

  Value mean_of_gradient(Value gradient, const Value& state) {
    return mean_of(gradient, name_of(state.node()) + "/" + prefix_ + "gradient_sum");
  }
  Value mean_of_loss(Value loss) { return mean_of(loss, prefix_ + "accumulated/loss"); }

 private:
  void count_unsound(Value sound) {
    sound_ = require_root_value(Operand(sound, site_), "accumulate_gradients", "sound", site_);
    if (sound_.type() != Type{boolean, {}}) {
      throw Error({.op = "accumulate_gradients",
                   .argument = "sound",
                   .expected = to_string(Type{boolean, {}}),
                   .got = to_string(sound_.type()),
                   .site = site_});
    }
    const Value before = state(prefix_ + "accumulated/unsound", {i64, {}});
    const Value now = add(before, cast(logical_not(sound_, site_), i64, site_), site_);
    result_.sound = equal(now, 0, site_);
    keep(before, now);
  }

  // The mean of `value` in the step that completes the update, in the dtype of the sum: of small
  // gradients 16 bits may hold each and not the mean, and none of those that were unscaled.
  Value mean_of(Value value, const std::string& name) {
    const DType dtype = memory_dtype(value.dtype());
    const Value before = state(name, {dtype, value.shape()});
    Value added = cast(Operand(value, site_), dtype, site_);
    if (sound_.valid()) added = select(sound_, added, zero_of(dtype), site_);
    const Value now = add(before, added, site_);
    keep(before, now);
    return div(now, count_, site_);
  }
  Value state(const std::string& name, const Type& type) {
    return remembered(graph_, "accumulate_gradients", name, zeros(type.shape, type.dtype),
                      "give each of them an AccumulateOptions::name of its own", site_);
  }
  Value zero_of(DType dtype) { return graph_.constant(Tensor::full(dtype, {}, 0), site_); }
  void keep(Value before, Value now) {
    result_.update.assignments.push_back(
        {before, select(result_.complete, zero_of(now.dtype()), now, site_)});
  }

  Graph& graph_;
  double count_;
  std::string prefix_;
  Accumulated& result_;
  Value sound_;
  CallSite site_;
};

Accumulated accumulated(const Values& states, const Values& gradients, Value loss,
                        int64_t micro_batches, const AccumulateOptions& options, CallSite site) {
  require_option(micro_batches >= 1, "accumulate_gradients", "micro_batches", "at least 1",
                 static_cast<double>(micro_batches), site);
  require_gradients("accumulate_gradients", states, gradients, site);
  require_option(!states.empty(), "accumulate_gradients", "states", "at least one", 0, site);
  Graph& graph = states[0].graph();
  const LabelScope label(graph, with_inner_scope(graph.label(), "accumulate"));
  // As in an optimizer: what changes a state computes in its dtype under every precision mode.
  const KeepDtypeScope exact(graph, site);
  Accumulated result;
  MicroBatches batches(graph, micro_batches, options, result, site);
  for (size_t i = 0; i < states.size(); ++i)
    result.means.push_back(batches.mean_of_gradient(gradients[i], states[i]));
  if (loss.valid()) result.loss = batches.mean_of_loss(cast(Operand(loss, site), f32, site));
  return result;
}

constexpr const char* kAverage = "/average";

std::string average_name(const Value& state) { return name_of(state.node()) + kAverage; }

// Tells whether the count is named for that average, with a number where the name was taken.
bool counts_for(const Value& count, const std::string& average) {
  const std::string of = name_of(count.node()).substr(kSkippedStates.size());
  return of == average || of.starts_with(average + "_");
}

// By average, the count of the update that it is part of. average_weights makes the count, named
// for the first average, and behind it one average after the other. So a state of the user's that
// is called like one has none, unless it is made right behind averages.
std::unordered_map<Value, Value, ValueHash> counts_of_averages(const Graph& graph) {
  std::unordered_map<Value, Value, ValueHash> counts;
  Value count;
  bool begun = false;
  for (const Value& state : graph.states()) {
    const std::string& name = name_of(state.node());
    if (counts_skipped_steps(state)) {
      count = state;
      begun = false;
    } else if (count.valid() && name != kStepState) {  // which the first count needs
      begun = begun ? name.ends_with(kAverage) : counts_for(count, name);
      if (begun)
        counts.emplace(state, count);
      else
        count = {};
    }
  }
  return counts;
}

// The calls of a layer that move one state.
struct CallsOfState {
  size_t to_come = 0;
  std::optional<size_t> assignment;  // its place in the update, once a call has made it
  // The outputs of the calls so far, and what those were computed from. Nodes of the whole graph,
  // which are looked through for states alone that are moved once more.
  std::vector<bool> kept;
};

}  // namespace

Values trainable_states(Operand value) {
  const Value root = require_root_value(value, "trainable_states", "value", value.site());
  const std::vector<bool> under = nodes_under(root);
  Values states;
  for (const Value& state : root.graph().states()) {
    if (state.node_id() < under.size() && under[state.node_id()] && is_trainable(state))
      states.push_back(state);
  }
  return states;
}

Update attached_updates(Operand value) {
  const Value root = require_root_value(value, "attached_updates", "value", value.site());
  const std::vector<bool> under = nodes_under(root);
  std::unordered_map<Value, CallsOfState, ValueHash> calls;
  // Copies: computing one from another adds to the graph.
  std::vector<AttachedUpdate> all;
  for (const AttachedUpdate& attached : root.graph().attached_updates()) {
    const uint32_t output = attached.output.node_id();
    if (output >= under.size() || !under[output]) continue;
    all.push_back(attached);
    ++calls[attached.state].to_come;
  }
  Update update;
  for (const AttachedUpdate& attached : all) {
    CallsOfState& of = calls[attached.state];
    if (!of.assignment) {
      of.assignment = update.assignments.size();
      update.assignments.push_back({attached.state, attached.next});
    } else {
      if (attached.observed.valid()) {
        of.kept.resize(std::max<size_t>(of.kept.size(), attached.observed.node_id() + 1), false);
        of.kept[attached.observed.node_id()] = true;
      }
      Value& next = update.assignments[*of.assignment].next;
      next = computed_from(attached.next, {{attached.state, next}}, of.kept);
    }
    if (--of.to_come == 0) continue;
    const std::vector<bool> here = nodes_under(attached.output);
    of.kept.resize(std::max(of.kept.size(), here.size()), false);
    for (size_t id = 0; id < here.size(); ++id) of.kept[id] = of.kept[id] || here[id];
  }
  return update;
}

Update apply_if(Operand predicate, const Update& update, CallSite site) {
  const CallSite line = site.known() ? site : predicate.site();
  const Value when = require_root_value(predicate, "apply_if", "predicate", line);
  if (when.type() != Type{boolean, {}}) {
    throw Error({.op = "apply_if",
                 .argument = "predicate",
                 .expected = to_string(Type{boolean, {}}),
                 .got = to_string(when.type()),
                 .site = line});
  }
  require_always_applied("apply_if", update, when.graph(), "join the predicates with logical_and",
                         line);
  const Value applied = when.graph().updates_applied();
  Update result;
  for (const Assignment& a : update.assignments) {
    const Value otherwise =
        counts_skipped_steps(a.state) ? add(Operand(a.state, line), 1, line) : a.state;
    result.assignments.push_back({a.state, select(when, a.next, otherwise, line)});
  }
  result.assignments.push_back({applied, add(applied, cast(when, i64, line), line)});
  return result;
}

Accumulated accumulate_gradients(const Values& states, const Values& gradients,
                                 int64_t micro_batches, const AccumulateOptions& options,
                                 CallSite site) {
  return accumulated(states, gradients, {}, micro_batches, options, site);
}

Accumulated accumulate_gradients(const Values& states, const Values& gradients, Operand loss,
                                 int64_t micro_batches, const AccumulateOptions& options,
                                 CallSite site) {
  const Value value = require_root_value(loss, "accumulate_gradients", "loss", site);
  if (is_float(value.dtype()) && value.shape().rank() == 0)
    return accumulated(states, gradients, value, micro_batches, options, site);
  throw Error({.op = "accumulate_gradients",
               .argument = "loss",
               .expected = "a float scalar",
               .got = to_string(value.type()),
               .site = site});
}

Update average_weights(const Update& update, double decay, CallSite site) {
  require_fraction(decay, "average_weights", "decay", site);
  std::map<DType, Value> decays;
  Update result = update;
  std::optional<UpdateCount> count;
  for (const Assignment& a : update.assignments) {
    if (!a.state.valid() || !a.state.node().is(OpRole::kState) || !is_trainable(a.state)) continue;
    Graph& graph = a.state.graph();
    require_always_applied("average_weights", update, graph, "average first, then apply_if", site);
    const LabelScope label(graph, with_inner_scope(graph.label(), "average"));
    const KeepDtypeScope exact(graph, site);
    if (!count) count.emplace(graph, average_name(a.state), result, site);
    const DType dtype = memory_dtype(a.state.dtype());
    Value& kept = decays[dtype];
    if (!kept.valid()) {
      const Value n = cast(Operand(count->applied(), site), dtype, site);
      kept = minimum(div(n, add(n, 9, site), site), decay, site);
    }
    const Value average =
        remembered(graph, "average_weights", average_name(a.state), zeros(a.state.shape(), dtype),
                   "average the updates of a state once", site);
    const Value change = sub(cast(a.next, dtype, site), average, site);
    const Value next = add(average, mul(change, sub(Operand(1, site), kept, site), site), site);
    result.assignments.push_back({average, next});
  }
  if (!decays.empty()) return result;
  throw Error({.op = "average_weights",
               .argument = "update",
               .expected = "one that assigns trainable float states",
               .got = "one that assigns none",
               .site = site});
}

Value with_averaged_weights(Operand value) {
  const CallSite site = value.site();
  const Value root = require_root_value(value, "with_averaged_weights", "value", site);
  Graph& graph = root.graph();
  const std::unordered_map<Value, Value, ValueHash> counts = counts_of_averages(graph);
  Replacements averages;
  for (const Value& state : trainable_states(value)) {
    const Value average = graph.find_state(average_name(state));
    const auto count = counts.find(average);
    if (count == counts.end()) continue;
    const LabelScope label(graph, with_inner_scope(graph.label(), "average"));
    const Value none_yet = equal(applied_by(count->second, site), 0, site);
    averages.emplace(state, select(none_yet, state, cast(average, state.dtype(), site), site));
  }
  if (!averages.empty()) return computed_from(root, std::move(averages));
  throw Error({.op = "with_averaged_weights",
               .argument = "value",
               .expected = "a value that depends on states with averages",
               .got = "one that depends on none",
               .fix = "make the update with average_weights first",
               .site = site});
}

}  // namespace keel
