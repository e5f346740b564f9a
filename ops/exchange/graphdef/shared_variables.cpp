#include "keel/ops/exchange/graphdef/shared_variables.h"

#include <map>
#include <string>
#include <tuple>

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

// References and handles of one name are apart: TensorFlow has them as resources of two types.
struct VariableKey {
  bool is_handle = false;
  std::string device, container, name;
  int64_t dtype = 0;

  friend bool operator<(const VariableKey& a, const VariableKey& b) {
    return std::tie(a.is_handle, a.device, a.container, a.name, a.dtype) <
           std::tie(b.is_handle, b.device, b.container, b.name, b.dtype);
  }
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
  return VariableKey{is_handle, node.device, std::move(container), std::move(name), dtype_of(node)};
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
  std::map<VariableKey, const NodeDef*> first;
  std::map<std::string, std::string> merged_names;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeDef& node = graph.nodes[i];
    const std::optional<VariableKey> key = key_of(node, rules);
    if (!key) continue;
    const auto [known, is_new] = first.emplace(*key, &node);
    if (is_new) continue;
    if (!merged) merged = graph;
    hand_on(merged->nodes[i], *known->second);
    merged_names.emplace(node.name, known->second->name);
  }
  if (!merged) return merged;
  for (VariableDef& variable : merged->variables) {
    const auto name = merged_names.find(parse_value(variable.name).node);
    if (name != merged_names.end()) variable.name = name->second;
  }
  return merged;
}

void require_one_dtype(const GraphDef& graph, const OpRules& rules) {
  std::map<VariableKey, const NodeDef*> first;
  for (const NodeDef& node : graph.nodes) {
    std::optional<VariableKey> key = key_of(node, rules);
    if (!key) continue;
    key->dtype = 0;
    const auto [known, is_new] = first.emplace(*key, &node);
    if (is_new || dtype_of(node) == dtype_of(*known->second)) continue;
    throw Error({.op = graph.source,
                 .argument = "node '" + printable(node.name) + "'",
                 .message = "is of another dtype than '" + printable(known->second->name) +
                            "', and both are the variable '" + printable(key->name) + "'",
                 .fix = "a shared_name of its own"});
  }
}

}  // namespace keel::graphdef
