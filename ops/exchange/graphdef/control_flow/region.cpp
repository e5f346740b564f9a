#include "keel/ops/exchange/graphdef/control_flow/region.h"

#include <algorithm>
#include <iterator>

namespace keel::graphdef {

bool Region::convert() {
  const size_t refused = refusals_.count();
  const std::vector<uint32_t> order = flow_.topological_order(members_, refusals_);
  if (order.size() < members_.size()) return false;
  for (const uint32_t node : order) find_context(node);
  if (refusals_.count() != refused) return false;
  schedule();
  return refusals_.count() == refused;
}

Context Region::context_of(FlowValue value) const {
  const auto sides = switch_contexts_.find(value.node);
  return sides == switch_contexts_.end() ? flow_[value.node].context : sides->second[value.port];
}

Context Region::context_of(FlowValue condition, bool side) {
  return contexts_.with(kAlways, {condition_number(root(condition)), side});
}

std::vector<uint32_t> Region::unconditional() const {
  std::vector<uint32_t> nodes;
  for (const uint32_t node : order_)
    if (flow_[node].context == kAlways && flow_[node].kind != FlowKind::kArgument)
      nodes.push_back(node);
  return nodes;
}

// ---- contexts

void Region::find_context(uint32_t node) {
  switch (flow_[node].kind) {
    case FlowKind::kSwitch:
      find_switch(node);
      return;
    case FlowKind::kMerge:
      find_merge(node);
      break;
    case FlowKind::kControlTrigger:
      // It runs behind nodes that do not run, too.
      flow_[node].kind = FlowKind::kPlain;
      flow_[node].definition.op = "NoOp";
      append(node, kAlways);
      break;
    default:
      append(node, joined_inputs(node));
      if (flow_[node].entries != 0) check_entries(node);
      if (flow_[node].definition.op == "Identity") note_identity(node);
      for (FlowValue& input : flow_[node].inputs) input = flow_.resolved(input);
  }
  drop_controls(node);
}

// Keeps the edges that order nodes which run under the same conditions, and say nothing of these.
void Region::drop_controls(uint32_t node) {
  const Context context = flow_[node].context;
  const auto is_dropped = [&](uint32_t read) {
    const FlowNode& source = flow_[read];
    return source.kind == FlowKind::kSwitch || source.kind == FlowKind::kEnter || source.pivot ||
           contexts_.join(context, source.context) != context;
  };
  std::vector<uint32_t>& controls = flow_[node].controls;
  controls.erase(std::remove_if(controls.begin(), controls.end(), is_dropped), controls.end());
}

Context Region::joined_inputs(uint32_t node) {
  Context joined = kAlways;
  bool was_clear = true;
  const auto join = [&](Context context) {
    was_clear = was_clear && context != kNever && context != kTooDeep;
    joined = contexts_.join(joined, context);
  };
  for (const FlowValue& input : flow_[node].inputs) join(context_of(input));
  for (const uint32_t control : flow_[node].controls) join(flow_[control].context);
  if (was_clear && joined == kNever)
    refusals_.add(flow_.name(node),
                  "reads values of both branches of a condition without a Merge, so that it never "
                  "has a value");
  if (was_clear && joined == kTooDeep)
    refusals_.add(flow_.name(node), "is nested deeper than " + std::to_string(kDeepestNesting));
  for (FlowValue& input : flow_[node].inputs) {
    const FlowNode& read = flow_[input.node];
    if (read.kind == FlowKind::kEnter && flow_.resolved(input) == input)
      refusals_.add(flow_.name(node), "reads '" + read.definition.name +
                                          "', an Enter that is no constant, without a Merge");
  }
  return joined;
}

void Region::find_switch(uint32_t node) {
  const FlowValue condition = root(flow_[node].inputs[1]);
  const Context base = joined_inputs(node);
  const uint32_t number = condition_number(condition);
  const std::array<Context, 2> sides{contexts_.with(base, {number, false}),
                                     contexts_.with(base, {number, true})};
  if (base != kTooDeep && (sides[0] == kTooDeep || sides[1] == kTooDeep))
    refusals_.add(flow_.name(node), "is nested deeper than " + std::to_string(kDeepestNesting));
  switch_contexts_[node] = sides;
  flow_[node].context = base;
  const FlowValue value = flow_.resolved(flow_[node].inputs[0]);
  flow_.forward({node, 0}, value);
  flow_.forward({node, 1}, value);
}

void Region::find_merge(uint32_t node) {
  const std::vector<FlowValue> inputs = flow_[node].inputs;
  std::vector<std::pair<size_t, Context>> alive;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Context context = context_of(inputs[i]);
    if (context == kTooDeep) return;
    if (context != kNever) alive.emplace_back(i, context);
  }
  if (alive.empty()) {
    append(node, kNever);
    return;
  }
  std::vector<uint32_t> common = contexts_.codes(alive.front().second);
  for (const auto& [input, context] : alive) {
    std::vector<uint32_t> both;
    const std::vector<uint32_t>& codes = contexts_.codes(context);
    std::set_intersection(common.begin(), common.end(), codes.begin(), codes.end(),
                          std::back_inserter(both));
    common = std::move(both);
  }
  std::vector<Option> options;
  for (const auto& [input, context] : alive) {
    Option option;
    const std::vector<uint32_t>& codes = contexts_.codes(context);
    std::set_difference(codes.begin(), codes.end(), common.begin(), common.end(),
                        std::back_inserter(option.codes));
    option.value = flow_.resolved(inputs[input]);
    if (flow_[node].index_is_read) option.index = index_value(node, input, context);
    options.push_back(std::move(option));
  }
  choose(node, std::move(options), contexts_.of(std::move(common)));
}

void Region::choose(uint32_t merge, std::vector<Option> options, Context common) {
  if (options.size() > 1) {
    if (!decide(merge, std::move(options), common, true))
      refusals_.add(flow_.name(merge),
                    "Merge of values of which not exactly one is there in each case");
    return;
  }
  std::vector<FlowValue> values{options.front().value};
  if (flow_[merge].index_is_read) values.push_back(options.front().index);
  flow_.pass_on(merge, std::move(values));
  append(merge, common);
}

std::optional<uint32_t> Region::splitting_condition(const std::vector<Option>& options) const {
  for (const uint32_t code : options.front().codes) {
    const bool splits = std::all_of(options.begin(), options.end(), [code](const Option& option) {
      const auto& codes = option.codes;
      return std::binary_search(codes.begin(), codes.end(), code) ||
             std::binary_search(codes.begin(), codes.end(), code ^ 1);
    });
    if (splits) return code >> 1;
  }
  return std::nullopt;
}

// Makes choices of two out of a Merge: a condition that all inputs depend on divides them. It
// recurses as deep as there are conditions in a context.
std::optional<Region::Option> Region::decide(uint32_t merge, std::vector<Option> options,
                                             Context context, bool is_outermost) {
  if (options.size() == 1) {
    if (!options.front().codes.empty()) return std::nullopt;
    return options.front();
  }
  if (options.empty()) return std::nullopt;
  const std::optional<uint32_t> condition = splitting_condition(options);
  if (!condition) return std::nullopt;
  std::array<std::vector<Option>, 2> sides;
  for (Option& option : options) {
    const auto code = std::find_if(option.codes.begin(), option.codes.end(),
                                   [&](uint32_t one) { return one >> 1 == *condition; });
    const bool side = (*code & 1) != 0;
    option.codes.erase(code);
    sides[side ? 1 : 0].push_back(std::move(option));
  }
  Choice choice{.condition = *condition};
  for (const bool side : {false, true}) {
    const auto decided = decide(merge, std::move(sides[side ? 1 : 0]),
                                contexts_.with(context, {*condition, side}), false);
    if (!decided) return std::nullopt;
    choice.values[side ? 1 : 0] = decided->value;
    choice.indices[side ? 1 : 0] = decided->index;
  }
  uint32_t node = merge;
  if (!is_outermost) {
    node = flow_.add("Merge", flow_.name(merge) + "/case");
    flow_[node].definition.attributes = flow_[merge].definition.attributes;
    flow_[node].kind = FlowKind::kMerge;
    flow_[node].index_is_read = flow_[merge].index_is_read;
  }
  append(node, context);
  choices_[node] = choice;
  return Option{{}, {node, 0}, {node, 1}};
}

FlowValue Region::index_value(uint32_t merge, size_t input, Context context) {
  const uint32_t node =
      flow_.add_index(flow_.name(merge) + "/value_index", static_cast<int64_t>(input));
  append(node, context);
  return {node, 0};
}

// All that starts a loop has to come under the same conditions: TensorFlow would run it for a part
// of its variables.
void Region::check_entries(uint32_t node) {
  const FlowNode& loop = flow_[node];
  for (uint32_t i = 0; i < loop.entries; ++i)
    if (context_of(loop.inputs[i]) != loop.context)
      refusals_.add(flow_.name(loop.inputs[i].node),
                    "Enter of a value that is there under other conditions than the rest of the "
                    "loop");
}

void Region::note_identity(uint32_t node) {
  FlowNode& found = flow_[node];
  if (found.inputs.size() != 1) return;
  roots_[node] = root(found.inputs.front());
  found.pivot = flow_[found.inputs.front().node].kind == FlowKind::kSwitch &&
                std::all_of(found.controls.begin(), found.controls.end(), [this](uint32_t read) {
                  return flow_[read].pivot || flow_[read].kind == FlowKind::kSwitch;
                });
}

uint32_t Region::condition_number(FlowValue condition) {
  const auto [entry, is_new] =
      condition_numbers_.emplace(condition.key(), static_cast<uint32_t>(conditions_.size()));
  if (is_new) conditions_.push_back(flow_.resolved(condition));
  return entry->second;
}

FlowValue Region::root(FlowValue value) const {
  const auto entry = roots_.find(value.node);
  return entry == roots_.end() ? value : entry->second;
}

void Region::append(uint32_t node, Context context) {
  flow_[node].context = context;
  order_.push_back(node);
}

bool Region::runs(uint32_t node) const {
  return flow_[node].context != kNever && flow_[node].context != kTooDeep;
}

}  // namespace keel::graphdef
