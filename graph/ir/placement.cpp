#include "keel/graph/ir/placement.h"

#include "keel/graph/ir/label.h"
#include "keel/graph/ir/op_def.h"

namespace keel {

HostScope::HostScope(Graph& graph, CallSite site)
    : scope_(graph, kPlacementAttribute, kHostPlacement, site) {}

bool is_on_host(const Node& node) {
  if (node.has(kSource | kView | kControl | kEffect)) return false;
  return is_marked(node, kPlacementAttribute, kHostPlacement);
}

}  // namespace keel
