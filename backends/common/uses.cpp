#include "keel/backends/common/uses.h"

#include <algorithm>

namespace keel {

Value root_of(Value v) {
  while (v.node().has(kView)) v = v.node().input(0);
  return v;
}

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

bool may_overwrite(const Node& node, const KernelPlan::InPlace& pair, Value root) {
  return !pair.required || reads_by(node, root) == 1;
}

}  // namespace keel
