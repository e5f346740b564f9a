// The order of a graph's nodes. Internal to the import; plain functions.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_NODE_ORDER_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_NODE_ORDER_H

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "keel/ops/exchange/graphdef/file/graph_def.h"

namespace keel::graphdef {

// Says whether what an op gives is for the next turn of a loop, so that its readers come before it.
bool leads_back(std::string_view op);

// Returns the indices of the nodes, each behind those that it reads or waits for, else in their own
// order. `source` is what errors name. Throws Error naming the nodes that wait for each other.
std::vector<size_t> node_order(const std::vector<NodeDef>& nodes, const std::string& source);

// Finds the node that gives what chains of Identity hand on.
class Origins {
 public:
  // `nodes` must outlive it.
  explicit Origins(const std::vector<NodeDef>& nodes);
  // Null where there is no such node, or the chain ends in none.
  const NodeDef* of(const std::string& node);

 private:
  const std::vector<NodeDef>& nodes_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<size_t> origins_;  // once they are known
};

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_NODE_ORDER_H
