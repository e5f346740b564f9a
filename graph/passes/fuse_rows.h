// MovedRows: parts of rows that nobody copies. A node that moves a part of each row of a computed
// value, for one element-wise unit alone and in its shape, is no task of its own where the backend
// lets the unit read the part in place; nor is one that joins rows which one such unit makes, where
// the backend lets the unit make them in place. Units that are computed in a group, or whose values
// products load, keep such nodes as tasks, and so do slices of states and of a loop's variables:
// read for longer, these could not be updated in place. Reads the graph, changes nothing. One
// thread.
#ifndef KEEL_GRAPH_PASSES_FUSE_ROWS_H
#define KEEL_GRAPH_PASSES_FUSE_ROWS_H

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "keel/graph/passes/fuse_anchors.h"
#include "keel/graph/passes/fuse_units.h"
#include "keel/graph/passes/shared_bodies.h"

namespace keel {

class MovedRows {
 public:
  // REQUIRES that all outlive this.
  MovedRows(const FuseUnits& units, const AnchorGroups& groups, SharedBodies& bodies);

  // Returns whether the unit is such a slice or join, and no task of its own.
  bool is_moved(uint32_t unit) const { return is_moved_[unit]; }
  // Returns the fused node of a unit with its slices and joins; null where it has none.
  const FusedNode* fused(uint32_t unit) const;
  // Returns why the backend has the slice or join that the unit is as a task of its own; empty
  // where it was not asked, or takes it.
  std::string why_apart(uint32_t unit) const;

 private:
  bool is_alone(uint32_t unit) const;
  bool is_slice_for(const Value& v, uint32_t reader) const;
  bool is_join_of(uint32_t join, uint32_t maker) const;
  std::vector<uint32_t> slices_for(uint32_t unit) const;
  std::vector<uint32_t> joins_of(uint32_t unit) const;
  Values outputs(uint32_t unit, const std::vector<uint32_t>& joins) const;
  FusedNode with(uint32_t unit, const std::vector<uint32_t>& slices,
                 const std::vector<uint32_t>& joins);
  bool takes(uint32_t moved, const FusedNode& fused);
  void find(uint32_t unit);

  const FuseUnits& units_;
  const AnchorGroups& groups_;
  SharedBodies& bodies_;
  std::vector<bool> is_moved_;                       // by unit
  std::unordered_map<uint32_t, FusedNode> fused_;    // by unit
  std::unordered_map<uint32_t, std::string> apart_;  // by unit
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_FUSE_ROWS_H
