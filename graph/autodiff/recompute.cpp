#include "keel/graph/autodiff/recompute.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "keel/graph/autodiff/agreed_attributes.h"

namespace keel {
namespace {

constexpr const char* kAgain = " again";  // behind the scope: a copy

bool is_attribute(const std::pair<std::string, std::string>& entry) {
  return entry.first == kRecomputeAttribute;
}

// Scopes of a graph that hold nodes begin at different ones: of the body that is being built, where
// the graph around it stays as it is; a scope that is opened where another one begins is told from
// that by its mark.
std::string next_scope(Graph& of_call) {
  const Graph& graph = of_call.under_construction();
  std::string scope = std::to_string(graph.depth()) + "." + std::to_string(graph.size());
  if (graph.label() == nullptr) return scope;
  const auto& around = graph.label()->attributes;
  const auto mark = std::find_if(around.begin(), around.end(), is_attribute);
  if (mark == around.end()) return scope;
  while (mark->second.starts_with(scope)) scope += " inside";
  return scope;
}

bool is_in(const Node& node, const std::string& scope) {
  if (node.has(kSource) || node.ordered()) return false;
  const std::string* own = scoped_attribute(node, kRecomputeAttribute);
  return own != nullptr && *own == scope;
}

// The label of a node's copy. It is another scope's, so that cse does not merge the two, and that
// gradients of gradients compute the copies anew as well.
NodeLabelPtr label_of_copy(const Node& node) {
  NodeLabel label = *with_outer_scope(LabelScope::label_inside(node), "recompute");
  std::find_if(label.attributes.begin(), label.attributes.end(), is_attribute)->second += kAgain;
  return std::make_shared<const NodeLabel>(std::move(label));
}

}  // namespace

RecomputeScope::RecomputeScope(Graph& graph, CallSite site)
    : scope_(graph, kRecomputeAttribute, next_scope(graph), site) {}

Values Recomputation::operator()(std::span<const Value> values, const Node& user) {
  Values result(values.begin(), values.end());
  const std::string* scope = scoped_attribute(user, kRecomputeAttribute);
  if (scope == nullptr) return result;
  for (Value& value : result) {
    if (is_in(value.node(), *scope)) value = again(value, *scope);
  }
  return result;
}

Value Recomputation::again(Value value, const std::string& scope) {
  std::vector<uint32_t> missing;
  std::vector<Value> open{value};
  std::unordered_set<uint32_t> seen;
  while (!open.empty()) {
    const Value v = open.back();
    open.pop_back();
    if (!is_in(v.node(), scope) || copies_.contains(v) || !seen.insert(v.node_id()).second)
      continue;
    missing.push_back(v.node_id());
    open.insert(open.end(), v.node().inputs().begin(), v.node().inputs().end());
  }
  std::sort(missing.begin(), missing.end());
  for (const uint32_t id : missing) {
    const Node& node = graph_.node(id);
    Values inputs = node.inputs().to_vector();
    for (Value& input : inputs) {
      const auto copy = copies_.find(input);
      if (copy != copies_.end() && is_in(input.node(), scope)) input = copy->second;
    }
    const LabelScope label(graph_, label_of_copy(node));
    const Node& copy =
        graph_.add(node.op(), std::move(inputs), node.attributes(), node.site(), node.bodies());
    for (uint32_t i = 0; i < node.types().size(); ++i)
      copies_.emplace(node.output(i), copy.output(i));
  }
  return copies_.at(value);
}

const std::string* copied_block(const Node& node) {
  const std::string* own = scoped_attribute(node, kRecomputeAttribute);
  return own != nullptr && own->ends_with(kAgain) ? own : nullptr;
}

NodeLabelPtr without_recompute(const NodeLabelPtr& label) {
  return without_attribute(label, kRecomputeAttribute);
}

}  // namespace keel
