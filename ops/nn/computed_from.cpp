#include "keel/ops/nn/computed_from.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/graph/ir/scopes.h"

namespace keel {

std::vector<bool> nodes_under(Value value) {
  const Graph& graph = value.graph();
  std::vector<bool> under(graph.size(), false);
  under[value.node_id()] = true;
  for (uint32_t id = value.node_id() + 1; id-- > 0;) {
    if (!under[id]) continue;
    for (const Value& input : graph.node(id).data_inputs()) under[input.node_id()] = true;
  }
  return under;
}

Value computed_from(Value value, Replacements replaced, const std::vector<bool>& kept) {
  Graph& graph = value.graph();
  uint32_t first = value.node_id();
  for (const auto& [old, other] : replaced) first = std::min(first, old.node_id());
  std::vector<uint32_t> between;
  std::vector<Value> open{value};
  std::unordered_set<uint32_t> seen;
  while (!open.empty()) {
    const Value v = open.back();
    open.pop_back();
    // A value that was made before the first replaced one depends on none of them.
    if (v.node_id() <= first || !seen.insert(v.node_id()).second) continue;
    if (v.node_id() < kept.size() && kept[v.node_id()]) continue;
    between.push_back(v.node_id());
    const NodeList<Value> inputs = v.node().data_inputs();
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  std::sort(between.begin(), between.end());
  for (const uint32_t id : between) {
    const Node& node = graph.node(id);
    Values inputs = node.data_inputs().to_vector();
    bool changed = false;
    for (Value& input : inputs) {
      const auto other = replaced.find(input);
      changed = changed || other != replaced.end();
      if (other != replaced.end()) input = other->second;
    }
    if (!changed) continue;
    if (node.ordered()) {
      throw Error(
          {.op = node.op_name(),
           .message = "depends on a value that is replaced, and its effect would happen twice",
           .fix = "take what it gives out of what is computed once more",
           .site = node.site()});
    }
    const LabelScope label(graph, node);
    const Node& copy = graph.add(node.op(), inputs, node.attributes(), node.site(), node.bodies());
    for (uint32_t i = 0; i < node.types().size(); ++i)
      replaced.emplace(node.output(i), copy.output(i));
  }
  const auto result = replaced.find(value);
  return result == replaced.end() ? value : result->second;
}

}  // namespace keel
