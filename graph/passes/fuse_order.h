// fuse_order: in which order the tasks of a fused graph come. A task comes behind all that it reads
// and before others overwrite a state that it reads; apart from that the order is near to the
// graph's own, but that updates come early. Reads the graph, changes nothing. Pure; any thread.
#ifndef KEEL_GRAPH_PASSES_FUSE_ORDER_H
#define KEEL_GRAPH_PASSES_FUSE_ORDER_H

#include <cstdint>
#include <vector>

#include "keel/graph/passes/fuse_anchors.h"
#include "keel/graph/passes/fuse_units.h"

namespace keel {

struct FusedTask {
  bool is_group = false;
  uint32_t number = 0;  // of the group, or of the unit that is computed by itself
};

std::vector<FusedTask> fuse_order(const FuseUnits& units, const AnchorGroups& groups);

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_FUSE_ORDER_H
