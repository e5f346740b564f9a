// ReadSlices: slices of rows that are read where they lie. A node that moves a part of each row of
// a computed value, for one element-wise unit alone and in its shape, is no task of its own where
// the backend lets the unit read the part in place. Units that are computed in a group, or whose
// values products load, keep their slices as tasks, and so do slices of states and of a loop's
// variables: read for longer, these could not be updated in place. Reads the graph, changes
// nothing. One thread.
#ifndef KEEL_GRAPH_PASSES_FUSE_SLICES_H
#define KEEL_GRAPH_PASSES_FUSE_SLICES_H

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "keel/graph/passes/fuse_anchors.h"
#include "keel/graph/passes/fuse_units.h"
#include "keel/graph/passes/shared_bodies.h"

namespace keel {

class ReadSlices {
 public:
  // REQUIRES that all outlive this.
  ReadSlices(const FuseUnits& units, const AnchorGroups& groups, SharedBodies& bodies);

  // Returns whether the unit is such a slice, and no task of its own.
  bool is_read(uint32_t unit) const { return is_read_[unit]; }
  // Returns the fused node of a unit and its slices; null where it has none.
  const FusedNode* fused(uint32_t unit) const;
  // Returns why the backend has the slice that the unit is as a task of its own; empty where it was
  // not asked, or takes it.
  std::string why_apart(uint32_t unit) const;

 private:
  bool is_alone(uint32_t unit) const;
  bool is_slice_for(const Value& v, uint32_t reader) const;
  FusedNode with_slices(uint32_t unit, const std::vector<uint32_t>& slices);
  void find(uint32_t unit);

  const FuseUnits& units_;
  const AnchorGroups& groups_;
  SharedBodies& bodies_;
  std::vector<bool> is_read_;                        // by unit
  std::unordered_map<uint32_t, FusedNode> fused_;    // by unit
  std::unordered_map<uint32_t, std::string> apart_;  // by unit
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_FUSE_SLICES_H
