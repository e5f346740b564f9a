#include "keel/graph/ir/placement.h"

#include <map>
#include <memory>
#include <utility>

#include "keel/graph/ir/label.h"
#include "keel/graph/ir/op_def.h"

namespace keel {
namespace {

constexpr std::string_view kMixedBecause = "policy mixed because ";

}  // namespace

HostScope::HostScope(Graph& graph, CallSite site)
    : scope_(graph, kPlacementAttribute, kHostPlacement, site) {}

bool is_on_host(const Node& node) {
  if (node.has(kSource | kView | kControl | kEffect)) return false;
  return is_marked(node, kPlacementAttribute, kHostPlacement);
}

NodeLabelPtr placed_on_host(const Node& node, std::string_view rule) {
  NodeLabel label = node.shared_label() == nullptr ? NodeLabel{} : *node.shared_label();
  std::map<std::string, std::string> attributes(label.attributes.begin(), label.attributes.end());
  attributes[kPlacementAttribute] = kHostPlacement;
  attributes[kPlacementRuleAttribute] = rule;
  label.attributes.assign(attributes.begin(), attributes.end());
  return std::make_shared<const NodeLabel>(std::move(label));
}

const char* name_of(PlacementPolicy policy) noexcept {
  return policy == PlacementPolicy::kMixed ? "mixed" : "full";
}

std::vector<std::string> placement_policy_names() {
  return {name_of(PlacementPolicy::kFull), name_of(PlacementPolicy::kMixed)};
}

PlacementPolicy placement_policy(std::string_view name) noexcept {
  return name == name_of(PlacementPolicy::kMixed) ? PlacementPolicy::kMixed
                                                  : PlacementPolicy::kFull;
}

std::string mixed_rule(std::string_view reason) {
  return std::string(kMixedBecause) + std::string(reason.empty() ? "the device lacks it" : reason);
}

std::string placement_rule(const Node& node) {
  const std::string* rule = scoped_attribute(node, kPlacementRuleAttribute);
  return rule == nullptr ? "HostScope" : *rule;
}

bool is_placed_by_policy(const Node& node) {
  return is_on_host(node) && placement_rule(node).starts_with(kMixedBecause);
}

const Node* placed_by_policy_in(const Node& node) {
  for (const auto& body : node.bodies()) {
    for (const Node& inner : body->nodes()) {
      if (is_placed_by_policy(inner)) return &inner;
      if (const Node* deeper = placed_by_policy_in(inner)) return deeper;
    }
  }
  return nullptr;
}

}  // namespace keel
