#include "keel/backends/common/uses.h"

#include <algorithm>

namespace keel {

Uses count_uses(const Graph& graph, const std::vector<bool>& live) {
  Uses uses(graph);
  for (const Node& node : graph.nodes()) {
    if (!live[node.id()] || node.has(kView)) continue;
    for (const Value& v : node.inputs()) ++uses[root_of(v)];
  }
  for (const Value& v : graph.outputs()) ++uses[root_of(v)];
  for (const Assignment& a : graph.updates()) ++uses[root_of(a.next)];
  return uses;
}

int64_t reads_by(const Node& node, Value root) {
  return std::count_if(node.inputs().begin(), node.inputs().end(),
                       [&](const Value& v) { return root_of(v) == root; });
}

bool may_overwrite(const KernelPlan& plan, size_t output, const std::vector<uint32_t>& arguments,
                   uint32_t buffer) {
  for (size_t at = 0; at < arguments.size(); ++at) {
    if (arguments[at] != buffer) continue;
    const bool allowed =
        std::any_of(plan.in_place.begin(), plan.in_place.end(),
                    [&](const auto& pair) { return pair.output == output && pair.input == at; });
    if (!allowed) return false;
  }
  return true;
}

}  // namespace keel
