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

// Finds where the values come from that chains of Identity hand on.
class Origins {
 public:
  // `nodes`, and the arguments of the body that they are, must outlive it.
  explicit Origins(const std::vector<NodeDef>& nodes,
                   const std::vector<std::string>* arguments = nullptr);
  // Null where the chain ends in no node.
  const NodeDef* of(const std::string& node);
  // Null where the chain ends in no argument.
  const std::string* argument_of(const std::string& node);

 private:
  size_t find(const std::string& node);

  const std::vector<NodeDef>& nodes_;
  const std::vector<std::string>* arguments_;
  std::unordered_map<std::string, size_t> index_;  // arguments come behind the nodes
  std::vector<size_t> origins_;                    // once they are known
};

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_NODE_ORDER_H
