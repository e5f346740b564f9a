// expand_parts: how a sum_of_parts node is expanded. The values and the batch's part are nodes of a
// specialised graph, with the part's rows. These nodes are followed from the part on, each by its
// rule (part_rules.h): where rows stay rows, one node computes those of all parts at once; where
// rows are summed, one node does so part by part and adds the sums as a tree. What has no rule, and
// what depends on a sum in other ways, is computed anew for each part, and a log line says so.
// Which way a node goes follows from the part's graph alone, so it is the same for any number of
// parts, and so are the bits of each part. Internal to ops. Pure but for the nodes that it adds.
#ifndef KEEL_OPS_PARTS_EXPAND_PARTS_H
#define KEEL_OPS_PARTS_EXPAND_PARTS_H

#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/ops/sum_of_parts.h"

namespace keel {

// Returns the sum of each value over the parts. REQUIRES known dimensions.
Values expand_parts(Graph& graph, const Values& values, const std::vector<BatchPart>& batch,
                    const SumOfPartsOptions& options, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_PARTS_EXPAND_PARTS_H
