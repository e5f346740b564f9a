// The names of a graph's nodes: how values are found by them, and how a node gets its label.
#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"

namespace keel {
namespace {

[[noreturn]] void refuse_ambiguous(std::string_view name, const Values& found, CallSite site) {
  constexpr size_t kShown = 3;
  std::string places;
  for (size_t i = 0; i < std::min(found.size(), kShown); ++i)
    places += (i == 0 ? "" : "; ") + described(found[i]) + made_at(found[i]);
  if (found.size() > kShown) places += "; ...";
  throw Error({.op = "find",
               .argument = "name",
               .expected = "a name that one value has",
               .got = "'" + std::string(name) + "', which " + std::to_string(found.size()) +
                      " have: " + places,
               .fix = "give the one that is meant a name of its own with named()",
               .site = site});
}

}  // namespace

void Graph::relabel(const Node& node, NodeLabelPtr label) {
  if (node.id() >= nodes_.size() || &nodes_[node.id()] != &node)
    throw Error({.op = "relabel", .message = "a node of another graph", .site = node.site()});
  Node& own = nodes_[node.id()];
  if (own.label_ == label) return;
  if (!own.label().name.empty()) {
    const auto at = given_names_.find(full_name(own));
    if (at != given_names_.end() && at->second == own.id()) given_names_.erase(at);
  }
  own.label_ = std::move(label);
  // A pass may copy a node twice; the first one keeps the name.
  if (!own.label().name.empty()) given_names_.emplace(full_name(own), own.id());
}

Value Graph::find_input(std::string_view name) const {
  const auto it = input_names_.find(name);
  return it == input_names_.end() ? Value() : it->second;
}

Value Graph::find_state(std::string_view name) const {
  const auto it = state_names_.find(name);
  return it == state_names_.end() ? Value() : it->second;
}

Value Graph::find(std::string_view name, CallSite site) const {
  if (const Value whole = find_node(name, site); whole.valid()) return whole;
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos) return {};
  uint32_t output = 0;
  const char* const end = name.data() + name.size();
  const auto number = std::from_chars(name.data() + colon + 1, end, output);
  if (number.ec != std::errc() || number.ptr != end) return {};
  const Value first = find_node(name.substr(0, colon), site);
  if (!first.valid() || output >= first.node().data_types().size()) return {};
  return first.node().output(output);
}

Value Graph::find_named(std::string_view name, CallSite site) const {
  Values found;
  if (const auto at = given_names_.find(std::string(name)); at != given_names_.end())
    found.push_back(nodes_[at->second].output());
  if (const Value state = find_state(name); state.valid()) found.push_back(state);
  if (const Value input = find_input(name); input.valid()) found.push_back(input);
  if (found.size() > 1) refuse_ambiguous(name, found, site);
  return found.empty() ? Value() : found[0];
}

// Where nobody gave the name, an op in a scope is meant.
Value Graph::find_node(std::string_view name, CallSite site) const {
  if (const Value given = find_named(name, site); given.valid()) return given;
  Values found;
  for (const Node& node : nodes_) {
    const NodeLabel& label = node.label();
    if (!name.ends_with(node.op_name()) || !label.name.empty() || node.data_types().empty())
      continue;
    if (node.is(OpRole::kInput) || node.is(OpRole::kState) || node.is(OpRole::kToken)) continue;
    if (full_name(node) == name) found.push_back(node.output());
  }
  if (found.size() > 1) refuse_ambiguous(name, found, site);
  return found.empty() ? Value() : found[0];
}

const std::string& name_of(const Node& node) {
  if (node.is(OpRole::kState)) return node.as<StateAttributes>().name;
  return node.as<InputAttributes>().name;
}

}  // namespace keel
