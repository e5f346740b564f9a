// Which buffers the values of a graph need and how often each is still to be read: what decides
// where the lowering may write in place. Pure functions; any thread.
#ifndef KEEL_BACKENDS_COMMON_USES_H
#define KEEL_BACKENDS_COMMON_USES_H

#include <cstdint>
#include <vector>

#include "keel/backends/common/kernel.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/passes/value_table.h"

namespace keel {

// The value whose bytes a chain of views shows.
Value root_of(Value v);

// How often each root is still to be read; views count for what they show.
using Uses = ValueTable<int64_t>;

// By the live nodes of the graph, its outputs and its updates.
Uses count_uses(const Graph& graph, const std::vector<bool>& live);

// How many of the node's inputs show this root.
int64_t reads_by(const Node& node, Value root);

// Whether the node's kernel may write `root`, which that input shows, in place as far as its other
// inputs go.
bool may_overwrite(const Node& node, const KernelPlan::InPlace& pair, Value root);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_USES_H
