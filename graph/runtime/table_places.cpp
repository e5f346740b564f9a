#include "keel/graph/runtime/table_places.h"

#include "keel/graph/ir/label.h"
#include "keel/graph/ir/table_attributes.h"

namespace keel {
namespace {

void use_tables(const Graph& graph, const std::string& place, PlacementPolicy policy,
                std::vector<std::shared_ptr<const TableUse>>& uses) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.bodies()) use_tables(*body, place, policy, uses);
    const auto table = table_read_by(node);
    if (table == nullptr) continue;
    const std::string own = is_on_host(node) ? kHostPlace : place;
    if (policy == PlacementPolicy::kMixed && own != kHostPlace) continue;
    uses.push_back(table->use(own, display_name(node), node.site()));
  }
}

}  // namespace

std::string place_of(const Device& device) {
  const auto memory = device.backend().allocate(device.index(), 0, "a table's place");
  return memory->host_accessible() ? kHostPlace : device.backend().name();
}

Support supports_table(const Node& node, const std::string& place) {
  if (place == kHostPlace || is_on_host(node)) return {true, ""};
  const auto table = table_read_by(node);
  if (table == nullptr) return {true, ""};
  const auto use = table->used_in(kHostPlace);
  if (!use) return {true, ""};
  return {false, "table '" + table->name() + "' is used on the host by " + *use};
}

std::vector<std::shared_ptr<const TableUse>> use_tables(const Graph& graph,
                                                        const std::string& place,
                                                        PlacementPolicy policy) {
  std::vector<std::shared_ptr<const TableUse>> uses;
  use_tables(graph, place, policy, uses);
  return uses;
}

}  // namespace keel
