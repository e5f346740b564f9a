// Which nodes of a graph are computed on a product's result while that is at hand: an element-wise
// node or cluster that alone reads it, then the row-wise nodes on either. For fuse_products, which
// asks the backend; reads the graph, changes nothing. One thread.
#ifndef KEEL_GRAPH_PASSES_PRODUCT_TAILS_H
#define KEEL_GRAPH_PASSES_PRODUCT_TAILS_H

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "keel/graph/passes/passes.h"
#include "keel/graph/passes/product_parts.h"
#include "keel/graph/passes/readers.h"

namespace keel {

class ProductTails {
 public:
  // REQUIRES that all outlive this. What stays apart is told to `report`, if there is one.
  ProductTails(const Graph& graph, const std::vector<bool>& live, const ValueReaders& readers,
               FuseReport* report)
      : graph_(graph),
        live_(live),
        readers_(readers),
        report_(report),
        product_of_(graph.size(), kNone) {}

  // `products`: the ids of all of them, rising.
  void find(const std::vector<uint32_t>& products);
  // Of rows that an element-wise node makes; of a product's rows all is told.
  void tell_rows_apart() const;

  // Null where the product has none.
  const ProductTail* of(uint32_t product) const;
  // The product with a tail that the node is, or is in the tail of.
  std::optional<uint32_t> product_with(uint32_t node) const {
    return product_of_[node] == kNone ? std::nullopt : std::optional(product_of_[node]);
  }
  // A product with a tail and its nodes.
  std::vector<const Node*> nodes_with(uint32_t product) const;

  void drop_rows(uint32_t product);
  void drop(uint32_t product);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  ProductTail& tail_for(uint32_t product) {
    product_of_[product] = product;
    return tails_[product];
  }
  void find_tail(uint32_t product);
  std::string find_epilogue(uint32_t product);
  bool find_rows(uint32_t product);
  bool stands_beside(const Node& row, const Node& last, uint32_t product) const;
  Values outputs_of(uint32_t product) const;
  void tell(const Node& from, const Node& to, const std::string& why) const;

  const Graph& graph_;
  const std::vector<bool>& live_;
  const ValueReaders& readers_;
  FuseReport* report_;
  std::unordered_map<uint32_t, ProductTail> tails_;  // by product
  std::vector<uint32_t> product_of_;                 // by node: the product that has it, or is it
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_PRODUCT_TAILS_H
