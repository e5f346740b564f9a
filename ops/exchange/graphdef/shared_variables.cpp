#include "keel/ops/exchange/graphdef/shared_variables.h"

#include <algorithm>
#include <array>
#include <compare>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/ops/exchange/graphdef/file/values.h"

namespace keel::graphdef {
namespace {

using Kind = AttrValue::Kind;

std::string text_of(const NodeDef& node, const char* attribute) {
  const AttrValue* text = find_attribute(node, attribute, Kind::kString);
  return text == nullptr ? "" : text->strings[0];
}

int64_t dtype_of(const NodeDef& node) {
  const AttrValue* type = find_attribute(node, "dtype", Kind::kType);
  return type == nullptr ? static_cast<int64_t>(DataType::kInvalid) : type->ints[0];
}

// The parts of a device's name: job, replica, task, type and number, each empty where it is open.
using Device = std::array<std::string, 5>;

// Reads "/job:ps/task:0/device:GPU:1", and "/cpu:0" as older graphs have it.
Device device_of(const std::string& name) {
  static constexpr const char* kBeforeType[] = {"job", "replica", "task"};
  Device device;
  for (size_t begin = 0, end = 0; begin < name.size(); begin = end + 1) {
    end = std::min(name.find('/', begin), name.size());
    std::string_view part = std::string_view(name).substr(begin, end - begin);
    if (part.starts_with("device:")) part.remove_prefix(part.find(':') + 1);
    if (part.empty()) continue;
    const size_t colon = std::min(part.find(':'), part.size());
    std::string key(part.substr(0, colon));
    std::string value(part.substr(std::min(colon + 1, part.size())));
    if (value == "*") value.clear();
    const auto* known = std::find(std::begin(kBeforeType), std::end(kBeforeType), key);
    if (known != std::end(kBeforeType)) {
      device[static_cast<size_t>(known - kBeforeType)] = std::move(value);
      continue;
    }
    for (char& letter : key)
      if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    device[3] = key == "*" ? "" : std::move(key);
    device[4] = std::move(value);
  }
  return device;
}

// References and handles of one name are apart: TensorFlow has them as resources of two types.
struct VariableKey {
  bool is_handle = false;
  std::string container, name;

  friend auto operator<=>(const VariableKey&, const VariableKey&) = default;
};

std::optional<VariableKey> key_of(const NodeDef& node, const OpRules& rules) {
  // Handles of this name are each a variable of their own: ResourceHandle::ANONYMOUS_NAME.
  static constexpr const char* kAnonymous = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";
  const OpRule* rule = rules.find(node.op);
  if (rule == nullptr || !rule->variable) return std::nullopt;
  const bool is_handle = node.op == "VarHandleOp";
  std::string name = text_of(node, "shared_name");
  if (is_handle && (name.empty() || name == kAnonymous)) return std::nullopt;
  // A reference without a shared name is called as its node is.
  if (name.empty()) name = node.name;
  // The default container is called by the job, which is "localhost" in a session of one process.
  std::string container = text_of(node, "container");
  if (container == "localhost") container.clear();
  return VariableKey{is_handle, std::move(container), std::move(name)};
}

struct Placed {
  size_t node;  // of the graph
  Device device;
};
// Nodes of one name in the graph's order.
using Group = std::vector<Placed>;

// Splits nodes by what the devices of all of them say, for as long as that differs.
void split_by_device(const Group& nodes, std::vector<Group>& groups) {
  Device said = nodes.front().device;
  for (const Placed& placed : nodes)
    for (size_t i = 0; i < said.size(); ++i)
      if (placed.device[i].empty()) said[i].clear();
  std::map<Device, Group> parts;
  for (const Placed& placed : nodes) {
    Device key = placed.device;
    for (size_t i = 0; i < said.size(); ++i)
      if (said[i].empty()) key[i].clear();
    parts[key].push_back(placed);
  }
  if (parts.size() == 1) {
    groups.push_back(nodes);
    return;
  }
  for (const auto& part : parts) split_by_device(part.second, groups);
}

// Says whether no two of the devices differ in what both of them say: they may be one.
bool fit(const Group& nodes) {
  Device all;
  for (const Placed& placed : nodes)
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].empty()) all[i] = placed.device[i];
      if (!placed.device[i].empty() && placed.device[i] != all[i]) return false;
    }
  return true;
}

// Nodes of variables: those of one group have one name, on devices that fit, or some of which fit
// several that do not fit each other.
std::vector<Group> groups_of(const std::vector<NodeDef>& nodes, const OpRules& rules) {
  std::map<VariableKey, Group> named;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (const std::optional<VariableKey> key = key_of(nodes[i], rules))
      named[*key].push_back({i, device_of(nodes[i].device)});
  std::vector<Group> groups;
  for (const auto& entry : named) split_by_device(entry.second, groups);
  return groups;
}

// Makes a node hand the variable of another one on.
void hand_on(NodeDef& node, const NodeDef& first) {
  const auto type =
      node.op == "VarHandleOp" ? static_cast<int64_t>(DataType::kResource) : dtype_of(node);
  node.op = "Identity";
  node.attributes = {{"T", {.kind = Kind::kType, .ints = {type}}}};
  node.inputs.insert(node.inputs.begin(), first.name);
}

}  // namespace

std::optional<GraphDef> merge_shared_variables(const GraphDef& graph, const OpRules& rules) {
  std::optional<GraphDef> merged;
  std::map<std::string, std::string> merged_names;
  for (const Group& group : groups_of(graph.nodes, rules)) {
    const bool one_device = fit(group);
    std::map<std::pair<Device, int64_t>, const NodeDef*> first;
    for (const Placed& placed : group) {
      const NodeDef& node = graph.nodes[placed.node];
      const auto [known, is_new] =
          first.emplace(std::pair(one_device ? Device() : placed.device, dtype_of(node)), &node);
      if (is_new) continue;
      if (!merged) merged = graph;
      hand_on(merged->nodes[placed.node], *known->second);
      merged_names.emplace(node.name, known->second->name);
    }
  }
  if (!merged) return merged;
  for (VariableDef& variable : merged->variables) {
    const auto name = merged_names.find(parse_value(variable.name).node);
    if (name != merged_names.end()) variable.name = name->second;
  }
  return merged;
}

void require_told_apart(const GraphDef& graph, const OpRules& rules) {
  for (const Group& group : groups_of(graph.nodes, rules)) {
    if (group.size() == 1) continue;
    const NodeDef& first = graph.nodes[group[0].node];
    const std::string name = "'" + printable(key_of(first, rules)->name) + "'";
    std::string nodes;
    for (const Placed& placed : group) {
      const NodeDef& node = graph.nodes[placed.node];
      if (dtype_of(node) != dtype_of(first))
        throw Error({.op = graph.source,
                     .argument = "node '" + printable(node.name) + "'",
                     .message = "is of another dtype than '" + printable(first.name) +
                                "', and both are the variable " + name,
                     .fix = "a shared_name of its own"});
      nodes += (nodes.empty() ? "'" : ", '") + node.name + "' on '" + node.device + "'";
    }
    throw Error({.op = graph.source,
                 .argument = "variable " + name,
                 .message = "its nodes may be one variable or several, as some of them leave open "
                            "what devices of others differ in: " +
                            printable(nodes, 400),
                 .fix = "the whole device of each node, or a shared_name of its own"});
  }
}

}  // namespace keel::graphdef
