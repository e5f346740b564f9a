#include "keel/ops/exchange/graphdef/control_flow/bodies.h"

#include <algorithm>
#include <utility>

namespace keel::graphdef {

namespace {

// Nodes that several bodies need are written to each of them. A graph in which that gets out of
// hand is refused, since it would grow with the square of its size.
constexpr size_t kMostCopies = 16;
constexpr size_t kFreeCopies = 10000;

std::string value_name(const FlowGraph& flow, FlowValue value, const Captures& captures) {
  if (const std::string* argument = captures.argument(value)) return *argument;
  const std::string& node = flow.name(value.node);
  return value.port == 0 ? node : node + ":" + std::to_string(value.port);
}

}  // namespace

void for_each_call(const NodeDef& node, const std::function<void(const std::string&)>& visit) {
  visit(node.op);
  for (const auto& [attribute, value] : node.attributes)
    if (value.kind != AttrValue::Kind::kString)
      for (const std::string& name : value.strings) visit(name);
}

std::unordered_set<std::string> called_bodies(
    const std::map<std::string, Body>& bodies, std::vector<const std::vector<NodeDef>*> lists,
    const std::function<bool(const std::string&)>& is_meant) {
  std::unordered_set<std::string> found;
  for (size_t next = 0; next < lists.size(); ++next)
    for (const NodeDef& node : *lists[next])
      for_each_call(node, [&](const std::string& name) {
        const auto body = bodies.find(name);
        if (body != bodies.end() && is_meant(name) && found.insert(name).second)
          lists.push_back(&body->second.nodes);
      });
  return found;
}

void remove_uncalled_bodies(GraphDef& graph) {
  const std::unordered_set<std::string> called =
      called_bodies(graph.bodies, {&graph.nodes}, [](const std::string&) { return true; });
  std::erase_if(graph.bodies, [&](const auto& entry) { return called.count(entry.first) == 0; });
}

void Captures::add(FlowValue value) {
  if (names_.emplace(value.key(), "").second) values_.push_back(value);
}

void Captures::add_control(uint32_t node) {
  if (known_controls_.insert(node).second) controls_.push_back(node);
}

std::vector<std::string> Captures::name_arguments(FlowGraph& flow) {
  std::vector<std::string> arguments;
  for (const FlowValue& value : values_) {
    const std::string& node = flow.name(value.node);
    std::string& name = names_[value.key()];
    name = value.port == 0 ? node : flow.free_name(node + "_" + std::to_string(value.port));
    arguments.push_back(name);
  }
  return arguments;
}

const std::string* Captures::argument(FlowValue value) const {
  const auto entry = names_.find(value.key());
  return entry == names_.end() ? nullptr : &entry->second;
}

BodyParts collect(const FlowGraph& flow, const std::vector<FlowValue>& results,
                  const std::function<bool(uint32_t)>& is_inside, Captures& captures) {
  BodyParts parts{{}, results};
  std::unordered_set<uint32_t> seen;
  const auto visit = [&](uint32_t node) {
    if (seen.insert(node).second) parts.nodes.push_back(node);
  };
  const auto read = [&](FlowValue value) {
    if (is_inside(value.node)) {
      visit(value.node);
    } else {
      captures.add(value);
    }
  };
  for (const FlowValue& result : results) read(result);
  for (size_t next = 0; next < parts.nodes.size(); ++next) {
    const FlowNode& node = flow[parts.nodes[next]];
    for (const FlowValue& input : node.inputs) read(input);
    for (const uint32_t control : node.controls) {
      if (is_inside(control)) {
        visit(control);
      } else if (flow[control].kind != FlowKind::kArgument) {
        captures.add_control(control);
      }
    }
  }
  std::sort(parts.nodes.begin(), parts.nodes.end(),
            [&](uint32_t a, uint32_t b) { return flow[a].position < flow[b].position; });
  return parts;
}

BodyLibrary::BodyLibrary(std::map<std::string, Body>& bodies, size_t nodes_of_graph)
    : bodies_(bodies), nodes_left_(nodes_of_graph * kMostCopies + kFreeCopies) {}

AttrValue BodyLibrary::add(FlowGraph& flow, uint32_t maker, const std::string& wanted,
                           const BodyParts& parts, const std::vector<std::string>& arguments,
                           const Captures& captures, Refusals& refusals) {
  AttrValue reference;
  reference.kind = AttrValue::Kind::kFunction;
  if (parts.nodes.size() > nodes_left_) {
    refusals.add(flow.name(maker), "needs nodes that too many branches and loops have in common");
    return reference;
  }
  nodes_left_ -= parts.nodes.size();
  uint32_t height = 0;
  for (const uint32_t node : parts.nodes) {
    height = std::max(height, flow[node].height);
    const bool once = flow[node].runs_once || runs_once(flow[node].definition.op);
    flow[maker].runs_once = flow[maker].runs_once || once;
    if (++flow[node].copies == 2 && once)
      refusals.add(flow.name(node),
                   "has effects or is random, and is needed in two branches or loop parts");
  }
  flow[maker].height = std::max(flow[maker].height, height + 1);
  if (height == kDeepestNesting)
    refusals.add(flow.name(maker), "is nested deeper than " + std::to_string(kDeepestNesting));

  Body body;
  body.name = wanted;
  while (bodies_.count(body.name) != 0)
    body.name = wanted + "_" + std::to_string(++last_number_[wanted]);
  body.arguments = arguments;
  body.nodes = write_nodes(flow, parts.nodes, captures);
  for (const FlowValue& result : parts.results)
    body.results.push_back(value_name(flow, result, captures));
  reference.strings = {body.name};
  added_.insert(body.name);
  bodies_.emplace(body.name, std::move(body));
  return reference;
}

std::unordered_set<std::string> BodyLibrary::needed_by(
    std::vector<const std::vector<NodeDef>*> lists) const {
  return called_bodies(bodies_, std::move(lists),
                       [this](const std::string& name) { return added_.count(name) != 0; });
}

void BodyLibrary::remove_unused(const std::vector<NodeDef>& nodes) {
  std::vector<const std::vector<NodeDef>*> stays{&nodes};
  for (const auto& [name, body] : bodies_)
    if (added_.count(name) == 0) stays.push_back(&body.nodes);
  const std::unordered_set<std::string> needed = needed_by(std::move(stays));
  for (const std::string& name : added_)
    if (needed.count(name) == 0) bodies_.erase(name);
}

std::vector<NodeDef> write_nodes(const FlowGraph& flow, const std::vector<uint32_t>& nodes,
                                 const Captures& captures) {
  const std::unordered_set<uint32_t> written(nodes.begin(), nodes.end());
  std::vector<NodeDef> definitions;
  definitions.reserve(nodes.size());
  for (const uint32_t node : nodes) {
    NodeDef definition = flow[node].definition;
    for (const FlowValue& input : flow[node].inputs)
      definition.inputs.push_back(value_name(flow, input, captures));
    std::unordered_set<uint32_t> ordered;
    for (const uint32_t control : flow[node].controls)
      if (written.count(control) != 0 && ordered.insert(control).second)
        definition.inputs.push_back("^" + flow.name(control));
    definitions.push_back(std::move(definition));
  }
  return definitions;
}

}  // namespace keel::graphdef
