#include "keel/graph/autodiff/agreed_attributes.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/ir/scopes.h"

namespace keel {
namespace {

void meet_in_body(AgreedAttributes& attributes, const Graph& body, const Value& input) {
  for (const Node& node : body.nodes()) {
    for (size_t i = 0; i < node.data_inputs().size(); ++i)
      if (node.input(i) == input) attributes.meet(node, i);
  }
}

bool computes_any(const Node& node, const ValueSet& useful) {
  for (uint32_t i = 0; i < node.data_types().size(); ++i)
    if (useful.contains(node.output(i))) return true;
  return false;
}

}  // namespace

void AgreedAttributes::meet(const Node& user, size_t input) {
  if (user.is(OpRole::kWhile)) {
    const Graph& body = *user.bodies()[1];
    meet_in_body(*this, body, body.inputs()[input]);
  } else if (user.is(OpRole::kCond)) {
    if (input == 0) return;
    for (const auto& body : user.bodies()) meet_in_body(*this, *body, body->inputs()[input - 1]);
  } else if (!user.has(kView) || !user.label().attributes.empty()) {
    meet(user.label().attributes);
  }
}

void AgreedAttributes::meet(const ScopedAttributes& attributes) {
  if (!met_) {
    agreed_ = attributes;
    std::erase_if(agreed_, [](const auto& entry) { return entry.first == kRecomputeAttribute; });
  } else {
    std::erase_if(agreed_, [&](const auto& entry) {
      return std::find(attributes.begin(), attributes.end(), entry) == attributes.end();
    });
  }
  met_ = true;
}

NodeLabelPtr AgreedAttributes::label_in(const NodeLabelPtr& around) const {
  if (agreed_.empty()) return around;
  NodeLabel own;
  own.attributes = agreed_;
  return label_within(around, std::make_shared<const NodeLabel>(std::move(own)));
}

NodeLabelPtr without_attribute(const NodeLabelPtr& label, std::string_view key) {
  const auto has_key = [&](const auto& entry) { return entry.first == key; };
  if (label == nullptr ||
      std::none_of(label->attributes.begin(), label->attributes.end(), has_key)) {
    return label;
  }
  NodeLabel fewer = *label;
  std::erase_if(fewer.attributes, has_key);
  return std::make_shared<const NodeLabel>(std::move(fewer));
}

void meet_users(const Graph& body, const ValueSet& useful,
                std::vector<AgreedAttributes>& of_inputs) {
  std::unordered_map<Value, size_t, ValueHash> numbers;
  for (size_t i = 0; i < body.inputs().size(); ++i) numbers.emplace(body.inputs()[i], i);
  for (const Node& node : body.nodes()) {
    if (node.has(kSource) || !computes_any(node, useful)) continue;
    for (size_t i = 0; i < node.data_inputs().size(); ++i) {
      const auto number = numbers.find(node.input(i));
      if (number != numbers.end()) of_inputs[number->second].meet(node, i);
    }
  }
}

}  // namespace keel
