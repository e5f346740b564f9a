#include "keel/graph/ir/placement.h"

#include <string>

#include "keel/core/base/error.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/op_def.h"

namespace keel {

HostScope::HostScope(Graph& graph, CallSite site)
    : scope_(graph, kPlacementAttribute, kHostPlacement, site) {}

bool is_on_host(const Node& node) {
  const std::string* placement = scoped_attribute(node, kPlacementAttribute);
  if (placement == nullptr || node.has(kSource | kView | kControl | kEffect)) return false;
  if (*placement == kHostPlacement) return true;
  throw Error({.op = full_name(node),
               .argument = std::string("attribute ") + kPlacementAttribute,
               .expected = std::string("'") + kHostPlacement + "'",
               .got = "'" + *placement + "'",
               .site = node.site()});
}

}  // namespace keel
