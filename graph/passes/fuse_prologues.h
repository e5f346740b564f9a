// Prologues of reductions within clusters. Where a cluster computes a value that a reduction alone
// reads beside values that are stored anyway, the reduction can compute it from these as it reads
// them: it is then neither written nor read back. Reads the graph, changes nothing. One thread.
#ifndef KEEL_GRAPH_PASSES_FUSE_PROLOGUES_H
#define KEEL_GRAPH_PASSES_FUSE_PROLOGUES_H

#include <cstdint>
#include <vector>

#include "keel/graph/passes/fuse_units.h"
#include "keel/graph/passes/shared_bodies.h"

namespace keel {

// Returns the nodes of the units in their order, where such parts of clusters are units of their
// own as far as the backend takes them into the reductions. No unit stores more than before.
std::vector<std::vector<uint32_t>> with_prologues_apart(const FuseUnits& units,
                                                        SharedBodies& bodies);

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_FUSE_PROLOGUES_H
