#include "keel/ops/exchange/graphdef/control_flow/loops.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace keel::graphdef {

namespace {

bool is_constant(const FlowNode& enter) {
  const auto value = enter.definition.attributes.find("is_constant");
  return value != enter.definition.attributes.end() && !value->second.ints.empty() &&
         value->second.ints.front() != 0;
}

}  // namespace

bool LoopConverter::convert() {
  const size_t refused = refusals_.count();
  find_condition();
  for (const uint32_t node : std::vector<uint32_t>(frame_.members))
    if (flow_[node].kind == FlowKind::kMerge) find_variable(node);
  if (refusals_.count() == refused && variables_.empty())
    refusals_.add(flow_.name(condition_), "LoopCond of a frame without a loop variable");
  if (refusals_.count() != refused) return false;
  add_constants();

  Region region(flow_, frame_.members, library_, refusals_);
  if (!region.convert()) return false;
  check_region(region);
  if (refusals_.count() != refused) return false;
  const uint32_t loop = write_loop();
  if (refusals_.count() != refused) return false;
  leave(loop);
  return true;
}

void LoopConverter::find_condition() {
  std::vector<uint32_t> found;
  for (const uint32_t node : frame_.members)
    if (flow_[node].kind == FlowKind::kLoopCond) found.push_back(node);
  if (found.empty()) {
    for (const uint32_t enter : frame_.enters)
      refusals_.add(flow_.name(enter),
                    "Enter to nowhere: frame '" + frame_.name + "' has no LoopCond");
    return;
  }
  condition_ = found.front();
  if (found.size() == 1) return;
  for (const uint32_t node : found)
    refusals_.add(flow_.name(node), "one of several LoopConds of frame '" + frame_.name + "'");
}

void LoopConverter::find_variable(uint32_t merge) {
  const std::vector<FlowValue> inputs = flow_[merge].inputs;
  std::vector<size_t> enters;
  std::vector<size_t> nexts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const FlowKind kind = flow_[inputs[i].node].kind;
    if (kind == FlowKind::kEnter) enters.push_back(i);
    if (kind == FlowKind::kNextIteration) nexts.push_back(i);
  }
  if (enters.empty() && nexts.empty()) return;  // of a conditional in the loop
  if (enters.size() != 1 || nexts.size() != 1 || inputs.size() != 2) {
    refusals_.add(flow_.name(merge),
                  "Merge of a loop that has not exactly one Enter and one NextIteration");
    return;
  }
  const uint32_t enter = inputs[enters.front()].node;
  if (is_constant(flow_[enter])) {
    refusals_.add(flow_.name(enter),
                  "Enter of a constant into the Merge '" + flow_.name(merge) + "'");
    return;
  }
  const Variable variable{
      .argument = merge, .start = {enter, 0}, .next_iteration = inputs[nexts.front()].node};
  variables_.push_back(variable);
  flow_[merge].kind = FlowKind::kArgument;
  flow_[merge].inputs.clear();
  flow_[merge].controls.clear();
  if (flow_[merge].index_is_read) add_index(variable, enters.front(), nexts.front());
}

// The second output of a loop's Merge is a loop variable: it says Enter at first, NextIteration
// then.
void LoopConverter::add_index(const Variable& variable, size_t start, size_t next) {
  const std::string name = flow_.name(variable.argument) + "/value_index";
  const uint32_t argument = flow_.add_argument(flow_.free_name(name));
  flow_.forward({variable.argument, 1}, {argument, 0});
  frame_.members.push_back(argument);
  const uint32_t first = flow_.add_index(name, static_cast<int64_t>(start));
  parent_.members.push_back(first);
  const uint32_t then = flow_.add_index(name, static_cast<int64_t>(next));
  indices_.push_back({.argument = argument, .start = {first, 0}, .next = {then, 0}});
}

void LoopConverter::add_constants() {
  for (const uint32_t enter : frame_.enters) {
    if (!is_constant(flow_[enter])) continue;
    const std::string name = flow_.name(enter);
    const uint32_t argument = flow_.add_argument(name);
    flow_.forward({enter, 0}, {argument, 0});
    frame_.members.push_back(argument);
    constants_.push_back({.argument = argument, .start = {enter, 0}, .next = {argument, 0}});
  }
}

void LoopConverter::check_region(Region& region) {
  if (flow_[condition_].context != kAlways)
    refusals_.add(flow_.name(condition_), "LoopCond that is not computed in each iteration");
  const Context goes_on = region.context_of({condition_, 0}, true);
  for (Variable& variable : variables_) {
    const FlowNode& next = flow_[variable.next_iteration];
    if (next.context != goes_on)
      refusals_.add(flow_.name(variable.next_iteration),
                    "NextIteration of a value that is not there exactly when the loop goes on; it "
                    "has to come through a Switch of the LoopCond");
    variable.next = next.inputs.front();
  }
  find_exits(region, region.context_of({condition_, 0}, false));
}

void LoopConverter::find_exits(const Region& region, Context left) {
  std::unordered_map<uint32_t, size_t> variable_of;
  for (size_t i = 0; i < variables_.size(); ++i) variable_of[variables_[i].argument] = i;
  for (const uint32_t exit : frame_.exits) {
    const FlowValue input = flow_[exit].inputs.front();
    const FlowValue value = flow_.resolved(input);
    const auto variable = variable_of.find(value.node);
    if (region.context_of(input) != left || variable == variable_of.end() || value.port != 0) {
      refusals_.add(flow_.name(exit),
                    "Exit of a value that is no loop variable when the loop ends");
      continue;
    }
    exits_.push_back(variable->second);
  }
}

uint32_t LoopConverter::write_loop() {
  flow_.pass_on(condition_, flow_[condition_].inputs);
  Captures captures;
  std::vector<FlowValue> next;
  for (const std::vector<Variable>* list : {&variables_, &indices_}) {
    for (const Variable& variable : *list) {
      captures.add({variable.argument, 0});
      next.push_back(variable.next);
    }
  }
  const auto is_inside = [this](uint32_t node) { return flow_[node].kind != FlowKind::kArgument; };
  const BodyParts condition = collect(flow_, flow_[condition_].inputs, is_inside, captures);
  BodyParts body = collect(flow_, next, is_inside, captures);
  std::vector<FlowValue> starts;
  for (const std::vector<Variable>* list : {&variables_, &indices_})
    for (const Variable& variable : *list) starts.push_back(variable.start);
  std::unordered_map<uint32_t, const Variable*> constants;
  for (const Variable& variable : constants_) constants[variable.argument] = &variable;
  for (size_t i = starts.size(); i < captures.values().size(); ++i) {
    const Variable& constant = *constants.at(captures.values()[i].node);
    starts.push_back(constant.start);
    body.results.push_back(constant.next);
  }

  std::string name = frame_.name;
  while (!name.empty() && name.back() == '/') name.pop_back();
  const uint32_t loop = flow_.add("While", name.empty() ? "while" : name);
  const std::vector<std::string> arguments = captures.name_arguments(flow_);
  for (const auto& [attribute, parts] :
       {std::pair<const char*, const BodyParts*>{"cond", &condition},
        std::pair<const char*, const BodyParts*>{"body", &body}}) {
    AttrValue written = library_.add(flow_, loop, flow_.name(loop) + "/" + attribute, *parts,
                                     arguments, captures, refusals_);
    flow_[loop].definition.attributes[attribute] = std::move(written);
  }
  flow_[loop].inputs = std::move(starts);
  flow_[loop].entries = static_cast<uint32_t>(variables_.size());
  return loop;
}

// Puts what stays of the frame into the one around it.
void LoopConverter::leave(uint32_t loop) {
  parent_.members.push_back(loop);
  flow_[loop].frame = frame_.parent;
  for (const uint32_t enter : frame_.enters) {
    flow_[enter].frame = frame_.parent;
    flow_.forward_no_more({enter, 0});
    flow_.pass_on(enter, flow_[enter].inputs);
    parent_.members.push_back(enter);
  }
  for (size_t i = 0; i < frame_.exits.size(); ++i)
    flow_.pass_on(frame_.exits[i], {{loop, static_cast<uint32_t>(exits_[i])}});
}

}  // namespace keel::graphdef
