// MovedRows: parts of rows that nobody copies.
// A slice, which moves a part of each row of a computed value for one element-wise unit alone and
// in its shape, is no task of its own where the backend lets the unit read the part in place.
// Slices of states and of a loop's variables are: read for longer, these could not be updated in
// place. A join of rows that one such unit makes is none where the backend lets the unit make them
// in place. Units that are computed in a group, or whose values products load, keep both as tasks.
// Reads the graph, changes nothing. One thread.
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
  bool is_moved(uint32_t unit) const { return owner_[unit] != FuseUnits::kNone; }
  // Returns whether one of the two is moved by the other.
  bool together(uint32_t a, uint32_t b) const;
  // Returns the fused node of a unit with its slices and joins; null where it has none.
  const FusedNode* fused(uint32_t unit) const;
  // Returns why the backend does not take one of the two, a slice or a join, with the other; empty
  // where it was not asked, or takes it.
  std::string why_apart(uint32_t a, uint32_t b) const;

 private:
  bool is_alone(uint32_t unit) const;
  bool is_slice_for(const Value& v, uint32_t reader) const;
  bool is_join_of(uint32_t join, uint32_t maker) const;
  std::vector<uint32_t> slices_for(uint32_t unit) const;
  std::vector<uint32_t> joins_of(uint32_t unit) const;
  Values outputs(uint32_t unit, const std::vector<uint32_t>& joins) const;
  FusedNode with(uint32_t unit, const std::vector<uint32_t>& slices,
                 const std::vector<uint32_t>& joins);
  bool takes(uint32_t moved, uint32_t owner, const FusedNode& fused);
  void find(uint32_t unit);

  const FuseUnits& units_;
  const AnchorGroups& groups_;
  SharedBodies& bodies_;
  struct Apart {
    uint32_t owner = FuseUnits::kNone;
    std::string reason;
  };
  std::vector<uint32_t> owner_;                    // by unit: which one moves it; kNone: none
  std::unordered_map<uint32_t, FusedNode> fused_;  // by unit
  std::unordered_map<uint32_t, Apart> apart_;      // by unit that is not moved: who would have
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_FUSE_ROWS_H
