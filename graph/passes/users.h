// Users: who reads each value of a graph, in one block, and which values leave it. A user is a live
// node, or a group of nodes that are computed together. Made once for a graph that does not grow
// meanwhile and outlives it; reading: any thread.
#ifndef KEEL_GRAPH_PASSES_USERS_H
#define KEEL_GRAPH_PASSES_USERS_H

#include <cstdint>
#include <span>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/value_table.h"

namespace keel {

class Users {
 public:
  // Users are nodes; `live` is by node id.
  Users(const Graph& graph, const std::vector<bool>& live);
  // Users are groups of node ids, by their position; what a group reads of itself does not count.
  Users(const Graph& graph, const std::vector<std::vector<uint32_t>>& groups);

  // Returns the users in rising order, each once.
  std::span<const uint32_t> of(const Value& v) const { return between(numbers_[v], 1); }
  // Does the same for all outputs of a node; who reads several comes once for each.
  std::span<const uint32_t> of(const Node& node) const {
    return node.types().empty() ? std::span<const uint32_t>()
                                : between(numbers_[node.output()], node.types().size());
  }
  // Returns whether the value leaves the graph: it is an output, or the next value of a state.
  bool leaves(const Value& v) const { return leaves_[numbers_[v]]; }
  bool leaves(const Node& node) const;

 private:
  std::span<const uint32_t> between(size_t value, size_t count) const {
    return {users_.data() + first_[value], first_[value + count] - first_[value]};
  }
  template <class Grouping>
  void list(const Graph& graph, const Grouping& grouping);

  ValueNumbers numbers_;
  std::vector<uint32_t> first_;  // by value: where its users begin; one more at the end
  std::vector<uint32_t> users_;
  std::vector<bool> leaves_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_USERS_H
