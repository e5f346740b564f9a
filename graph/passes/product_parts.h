// What a fused_product node is made of: the ops that turn what is stored into an operand (a load),
// and the two bodies. For fuse_products; reads the graph, changes nothing.
#ifndef KEEL_GRAPH_PASSES_PRODUCT_PARTS_H
#define KEEL_GRAPH_PASSES_PRODUCT_PARTS_H

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel {

// Element-wise ops of one variable that turn `source` into the value that a product reads.
struct ProductLoad {
  Value source;
  const Graph* body = nullptr;  // the cluster's, which has `result`; null where it is one node
  Value result;                 // in that body or, without one, in the graph
  // Where the source's rows are gathered on the way: the node that would do it.
  const Node* gather = nullptr;

  Value stored() const { return gather == nullptr ? source : gather->input(0); }
};

using ProductLoads = std::unordered_map<Value, ProductLoad, ValueHash>;  // by what products read

// How an element-wise value would be loaded; nothing where it is made of more than one variable.
std::optional<ProductLoad> load_of(const Value& v);

// What is computed on a product's result: an element-wise node or cluster, then row-wise nodes that
// read the result or the cluster's. Neither needs to be there.
struct ProductTail {
  const Node* epilogue = nullptr;
  std::vector<const Node*> rows;
  Values outputs;  // of all these and the product: what others read

  bool empty() const { return epilogue == nullptr && rows.empty(); }
};

struct ProductParts {
  Values inputs;  // of the graph: the operands' sources, then what else the epilogue reads
  std::vector<std::shared_ptr<Graph>> bodies;
  Values outputs;  // of the graph, paired with the node's outputs
  CallSite site;
};

// Those of a product of the graph with those of its operands that are in `loads`, and its tail.
ProductParts parts_of(const Graph& from, const Node& product, const ProductLoads& loads,
                      const ProductTail& tail);

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_PRODUCT_PARTS_H
