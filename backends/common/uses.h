// Uses: which buffers the values of a graph need and how often each is still to be read: what
// decides where the lowering may write in place. Pure functions; any thread.
#ifndef KEEL_BACKENDS_COMMON_USES_H
#define KEEL_BACKENDS_COMMON_USES_H

#include <cstdint>
#include <vector>

#include "keel/backends/common/kernel.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/value_table.h"
#include "keel/graph/ir/views.h"

namespace keel {

// Counts how often each root is still to be read; views count for what they show.
using Uses = ValueTable<int64_t>;

// Counts uses by the live nodes of the graph, its outputs and its updates.
Uses count_uses(const Graph& graph, const std::vector<bool>& live);

// Returns how many of the node's inputs show this root.
int64_t reads_by(const Node& node, Value root);

// Returns whether the kernel may write that output over `buffer`, as far as its other arguments go:
// `arguments` names the buffers of the node's inputs and of the outputs before this one. Every
// input that shows the buffer needs a pair of the plan; an output there takes it.
bool may_overwrite(const KernelPlan& plan, size_t output, const std::vector<uint32_t>& arguments,
                   uint32_t buffer);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_USES_H
