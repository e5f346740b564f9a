#include "keel/graph/ir/label.h"

#include <algorithm>

#include "keel/core/base/error.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/member_names.h"

namespace keel {
namespace {

std::string name_inside_scope(const NodeLabel& label, const Node& node) {
  return label.name.empty() ? node.op_name() : label.name;
}

// A node of a fused node's body with the label of what it was made from.
struct Member {
  const Node* node;
  const NodeLabel* label;
};

std::vector<Member> members_of(const Node& fused) {
  const std::vector<NodeLabelPtr>& labels = fused.label().members;
  static const NodeLabel kNone;
  std::vector<Member> members;
  members.reserve(fused.bodies()[0]->size());
  for (const Node& inner : fused.bodies()[0]->nodes()) {
    if (inner.has(kSource | kView)) continue;
    const bool known = inner.id() < labels.size() && labels[inner.id()] != nullptr;
    members.push_back({&inner, known ? labels[inner.id()].get() : &kNone});
  }
  return members;
}

std::string in_scope(const NodeLabel& label, const std::string& name) {
  return label.scope.empty() ? name : label.scope + "/" + name;
}

std::string names_of_members(const Node& fused) {
  std::string text;
  const std::string* scope = nullptr;
  for (const auto& [inner, label] : members_of(fused)) {
    if (!text.empty()) text += " + ";
    if (!label->scope.empty() && (scope == nullptr || *scope != label->scope)) {
      text += label->scope + "/";
      scope = &label->scope;
    }
    text += name_inside_scope(*label, *inner);
  }
  return text;
}

}  // namespace

bool same_label(const NodeLabel& a, const NodeLabel& b) {
  const auto same = [](const NodeLabelPtr& x, const NodeLabelPtr& y) {
    return x == y || (x != nullptr && y != nullptr && same_label(*x, *y));
  };
  return a.scope == b.scope && a.name == b.name && a.attributes == b.attributes &&
         std::equal(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(), same);
}

std::string full_name(const Node& node) {
  if (node.is(OpRole::kInput) || node.is(OpRole::kState)) return name_of(node);
  return in_scope(node.label(), name_inside_scope(node.label(), node));
}

std::string display_name(const Node& node) {
  const bool has_own = !node.label().name.empty();
  return is_fused_node(node) && !has_own ? names_of_members(node) : full_name(node);
}

std::vector<std::string> member_names(const Node& node) {
  if (!is_fused_node(node)) return {full_name(node)};
  const std::vector<Member> members = members_of(node);
  std::vector<std::string> names;
  names.reserve(members.size());
  for (const auto& [inner, label] : members) {
    names.push_back(in_scope(*label, name_inside_scope(*label, *inner)));
  }
  return names;
}

const std::string* scoped_attribute(const Node& node, std::string_view key) {
  for (const auto& [name, value] : node.label().attributes) {
    if (name == key) return &value;
  }
  return nullptr;
}

bool is_marked(const Node& node, std::string_view key, std::string_view value) {
  const std::string* own = scoped_attribute(node, key);
  if (own == nullptr) return false;
  if (*own == value) return true;
  throw Error({.op = full_name(node),
               .argument = "attribute " + std::string(key),
               .expected = "'" + std::string(value) + "'",
               .got = "'" + *own + "'",
               .site = node.site()});
}

}  // namespace keel
