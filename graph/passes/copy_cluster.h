// Copies an element-wise node or cluster of a graph into the body of a node that computes more than
// it. Reads the graph, changes only the body. One thread.
#ifndef KEEL_GRAPH_PASSES_COPY_CLUSTER_H
#define KEEL_GRAPH_PASSES_COPY_CLUSTER_H

#include <unordered_map>

#include "keel/graph/ir/graph.h"

namespace keel {

using ValueMap = std::unordered_map<Value, Value, ValueHash>;  // of a graph -> of a body

// The copies of what the node gives. What it reads and the map has not becomes an input of the body
// and is appended to `inputs`, the body's inputs as values of the graph; scalar constants are
// copied. All of it is in the map then.
Values copy_cluster(const Node& node, Graph& body, ValueMap& map, Values& inputs);

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_COPY_CLUSTER_H
