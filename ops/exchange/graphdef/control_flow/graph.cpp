#include "keel/ops/exchange/graphdef/control_flow/graph.h"

#include <algorithm>
#include <array>
#include <span>

namespace keel::graphdef {

namespace {

constexpr std::array<std::pair<std::string_view, FlowKind>, 7> kKinds{{
    {"Switch", FlowKind::kSwitch},
    {"Merge", FlowKind::kMerge},
    {"Enter", FlowKind::kEnter},
    {"Exit", FlowKind::kExit},
    {"NextIteration", FlowKind::kNextIteration},
    {"LoopCond", FlowKind::kLoopCond},
    {"ControlTrigger", FlowKind::kControlTrigger},
}};

constexpr int64_t kFirstReference = 100;

size_t outputs_of(FlowKind kind) {
  switch (kind) {
    case FlowKind::kPlain:
      return SIZE_MAX;
    case FlowKind::kSwitch:
    case FlowKind::kMerge:
      return 2;
    case FlowKind::kControlTrigger:
      return 0;
    default:
      return 1;
  }
}

bool has_reference_type(const NodeDef& node) {
  const auto type = node.attributes.find("T");
  return type != node.attributes.end() && !type->second.ints.empty() &&
         type->second.ints.front() > kFirstReference;
}

bool begins_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

bool begins_with_one_of(std::string_view text, std::span<const std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [text](std::string_view start) { return begins_with(text, start); });
}

}  // namespace

FlowKind flow_kind(std::string_view op) {
  if (begins_with(op, "Ref")) op.remove_prefix(3);
  for (const auto& [name, kind] : kKinds)
    if (name == op) return kind;
  return FlowKind::kPlain;
}

bool has_effects(std::string_view op) {
  constexpr std::array<std::string_view, 22> kStarts{"Assign",
                                                     "Scatter",
                                                     "ResourceScatter",
                                                     "Apply",
                                                     "ResourceApply",
                                                     "SparseApply",
                                                     "ResourceSparseApply",
                                                     "StridedSliceAssign",
                                                     "ResourceStridedSliceAssign",
                                                     "CountUpTo",
                                                     "ResourceCountUpTo",
                                                     "LookupTableInsert",
                                                     "LookupTableImport",
                                                     "LookupTableRemove",
                                                     "QueueEnqueue",
                                                     "QueueDequeue",
                                                     "QueueClose",
                                                     "IteratorGetNext",
                                                     "Stack",
                                                     "PyFunc",
                                                     "Write",
                                                     "Save"};
  return op != "ScatterNd" && !begins_with(op, "ScatterNdNonAliasing") &&
         begins_with_one_of(op, kStarts);
}

bool runs_once(std::string_view op) {
  constexpr std::array<std::string_view, 9> kStarts{
      "Random",      "TruncatedNormal", "ParameterizedTruncated",
      "Multinomial", "Stateful",        "Print",
      "Assert",      "Queue",           "Iterator"};
  return has_effects(op) || begins_with_one_of(op, kStarts);
}

bool is_reference_form(std::string_view op) {
  return op == "RefIdentity" || (begins_with(op, "Ref") && flow_kind(op) != FlowKind::kPlain);
}

// ---- reading

FlowGraph::FlowGraph(const std::vector<NodeDef>& definitions,
                     const std::vector<std::string>& arguments,
                     const std::vector<std::string>& read, Refusals& refusals) {
  nodes.reserve(definitions.size() + arguments.size());
  for (const std::string& argument : arguments) {
    if (!index_.emplace(argument, static_cast<uint32_t>(nodes.size())).second)
      refuse_malformed(argument, "has the name of another argument", refusals);
    add_argument(argument);
    taken_.emplace(argument, 0);
  }
  for (const NodeDef& definition : definitions) {
    if (!index_.emplace(definition.name, static_cast<uint32_t>(nodes.size())).second)
      refuse_malformed(definition.name, "has the name of another node", refusals);
    taken_.emplace(definition.name, 0);
    nodes.push_back({.definition = definition, .kind = flow_kind(definition.op)});
  }
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    read_inputs(node, refusals);
    check(node, refusals);
  }
  for (const std::string& text : read) {
    const std::optional<FlowValue> value = find(parse_value(text), text, text, refusals);
    if (!value) continue;
    if (value->port == 1) nodes[value->node].index_is_read = true;
    results.push_back(*value);
  }
}

void FlowGraph::read_inputs(uint32_t node, Refusals& refusals) {
  const std::vector<std::string> texts = std::move(nodes[node].definition.inputs);
  nodes[node].definition.inputs.clear();
  for (const std::string& text : texts) {
    const ValueName name = parse_value(text);
    const std::optional<FlowValue> value = find(name, this->name(node), text, refusals);
    if (!value) continue;
    if (name.control) {
      nodes[node].controls.push_back(value->node);
    } else {
      nodes[node].inputs.push_back(*value);
      if (value->port == 1) nodes[value->node].index_is_read = true;
    }
  }
}

std::optional<FlowValue> FlowGraph::find(const ValueName& name, const std::string& reader,
                                         std::string_view text, Refusals& refusals) {
  const auto entry = index_.find(name.node);
  if (entry == index_.end()) {
    refuse_malformed(reader, "reads " + quoted_name(text) + ", and there is no such node",
                     refusals);
    return std::nullopt;
  }
  if (!name.control && name.output >= outputs_of(nodes[entry->second].kind)) {
    refuse_malformed(reader, "reads " + quoted_name(text) + ", and the node has no such output",
                     refusals);
    return std::nullopt;
  }
  return FlowValue{entry->second, static_cast<uint32_t>(name.output)};
}

void FlowGraph::refuse_malformed(const std::string& node, const std::string& reason,
                                 Refusals& refusals) {
  malformed = true;
  refusals.add(node, reason);
}

void FlowGraph::check(uint32_t node, Refusals& refusals) {
  const FlowNode& checked = nodes[node];
  const std::string& op = checked.definition.op;
  if (checked.kind != FlowKind::kPlain &&
      (is_reference_form(op) || has_reference_type(checked.definition)))
    refusals.add(name(node), op + " of a reference to a variable; use resource variables");
  const size_t inputs = checked.inputs.size();
  size_t wanted = 1;
  switch (checked.kind) {
    case FlowKind::kPlain:
    case FlowKind::kArgument:
      return;
    case FlowKind::kSwitch:
      wanted = 2;
      break;
    case FlowKind::kMerge:
      wanted = std::max<size_t>(1, inputs);
      break;
    case FlowKind::kControlTrigger:
      wanted = 0;
      break;
    default:
      break;
  }
  if (inputs != wanted)
    refuse_malformed(
        name(node),
        op + " with " + std::to_string(inputs) + " inputs, which has " + std::to_string(wanted),
        refusals);
  if (checked.kind != FlowKind::kEnter) return;
  const auto frame = checked.definition.attributes.find("frame_name");
  if (frame == checked.definition.attributes.end() || frame->second.strings.size() != 1)
    refuse_malformed(name(node), "Enter without a frame_name", refusals);
}

// ---- changing

uint32_t FlowGraph::add(const std::string& op, const std::string& name) {
  FlowNode node;
  node.definition.op = op;
  node.definition.name = free_name(name);
  nodes.push_back(std::move(node));
  return static_cast<uint32_t>(nodes.size() - 1);
}

uint32_t FlowGraph::add_argument(const std::string& name) {
  FlowNode node;
  node.definition.name = name;
  node.kind = FlowKind::kArgument;
  nodes.push_back(std::move(node));
  return static_cast<uint32_t>(nodes.size() - 1);
}

uint32_t FlowGraph::add_index(const std::string& name, int64_t value) {
  const uint32_t node = add("Const", name);
  auto tensor = std::make_shared<TensorProto>();
  tensor->type = DataType::kInt32;
  tensor->integers = {value};
  nodes[node].definition.attributes = {
      {"dtype", {.kind = AttrValue::Kind::kType, .ints = {static_cast<int64_t>(DataType::kInt32)}}},
      {"value", {.kind = AttrValue::Kind::kTensor, .tensors = {std::move(tensor)}}}};
  return node;
}

std::string FlowGraph::free_name(const std::string& wanted) {
  if (taken_.emplace(wanted, 0).second) return wanted;
  for (;;) {
    std::string name = wanted + "_" + std::to_string(++taken_[wanted]);
    if (taken_.emplace(name, 0).second) return name;
  }
}

FlowValue FlowGraph::resolved(FlowValue value) const {
  const auto entry = forwarded_.find(value.key());
  return entry == forwarded_.end() ? value : entry->second;
}

void FlowGraph::pass_on(uint32_t node, std::vector<FlowValue> values) {
  NodeDef& definition = nodes[node].definition;
  std::map<std::string, AttrValue> attributes;
  const auto type = definition.attributes.find("T");
  if (type != definition.attributes.end()) {
    AttrValue value = type->second;
    if (values.size() > 1) {
      value.kind = AttrValue::Kind::kList;
      value.ints.push_back(static_cast<int64_t>(DataType::kInt32));
    }
    attributes["T"] = std::move(value);
  }
  definition.op = values.size() > 1 ? "IdentityN" : "Identity";
  definition.attributes = std::move(attributes);
  nodes[node].kind = FlowKind::kPlain;
  nodes[node].inputs = std::move(values);
}

}  // namespace keel::graphdef
