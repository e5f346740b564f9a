// FuseUnits: what `fuse` moves as a whole: an element-wise cluster, or any other live node that
// computes something. Units are numbered in an order in which each comes behind those that it
// reads. Valid as long as the graph is; immutable; any thread.
#ifndef KEEL_GRAPH_PASSES_FUSE_UNITS_H
#define KEEL_GRAPH_PASSES_FUSE_UNITS_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/passes/fuse_clusters.h"
#include "keel/graph/passes/users.h"

namespace keel {

// Returns the nodes of the units in their order: close to the order of the graph, so that values
// live about as long as they did.
std::vector<std::vector<uint32_t>> ordered_units(const Graph& graph, const std::vector<bool>& live,
                                                 const Users& users, const Clusters& clusters);

class FuseUnits {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // The nodes of each unit, as ordered_units gives them.
  FuseUnits(const Graph& graph, std::vector<std::vector<uint32_t>> nodes);

  const Graph& graph() const noexcept { return graph_; }
  uint32_t count() const noexcept { return static_cast<uint32_t>(nodes_.size()); }
  const std::vector<uint32_t>& nodes(uint32_t unit) const { return nodes_[unit]; }
  const Node& first(uint32_t unit) const { return graph_.node(nodes_[unit].front()); }
  const Node& last(uint32_t unit) const { return graph_.node(nodes_[unit].back()); }
  // Returns the unit that makes a value; kNone where that is a source, or dead.
  uint32_t of(const Value& v) const { return unit_of_[v.node_id()]; }
  uint32_t of(const Node& node) const { return unit_of_[node.id()]; }
  bool is_elementwise(uint32_t unit) const { return keel::is_elementwise(first(unit)); }

  // Returns the users by unit.
  const Users& users() const noexcept { return users_; }
  // Returns what leaves the unit: its values that other units or the graph's outputs take.
  Values outputs(uint32_t unit) const;
  // Returns why a value has to be stored although its first user could be computed with it; empty
  // if it need not be.
  std::string why_stored(const Value& v) const;
  // Returns the node of the unit that reads the value first.
  const Node& user(uint32_t unit, const Value& v) const;

 private:
  const Graph& graph_;
  std::vector<std::vector<uint32_t>> nodes_;
  std::vector<uint32_t> unit_of_;  // by node id
  Users users_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_FUSE_UNITS_H
