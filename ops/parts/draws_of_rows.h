// Random ops in the bodies of loops and conditions, where their numbers are those of a batch's
// rows. Which they are is known while a sum_of_parts is built, from what depends on a part: these
// are marked then (mark_draws_of_rows of sum_of_parts.h), gradients copy the marks with the nodes,
// so that a turn that is computed once more draws the same numbers, and each part counts on from
// them. Internal to ops/parts. Pure functions; any thread.
#ifndef KEEL_OPS_PARTS_DRAWS_OF_ROWS_H
#define KEEL_OPS_PARTS_DRAWS_OF_ROWS_H

#include <cstdint>
#include <memory>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel {

// Says whether the node is a random op in the shape of another value.
bool is_random_like(const Node& node);

// Returns the attributes with which such a node draws the numbers of a part, the number of its
// parts being counted over all ranks. REQUIRES known dimensions.
Attributes draws_of_part(const Node& node, int64_t part);

// Returns the node's bodies with what is marked in them drawing the numbers of a part; its own
// bodies where that is nothing.
std::vector<std::shared_ptr<Graph>> bodies_of_part(const Node& node, int64_t part);

}  // namespace keel

#endif  // KEEL_OPS_PARTS_DRAWS_OF_ROWS_H
