// Clusters: which element-wise nodes of a graph to compute in one pass. They are the seeds of fused
// bodies: a cluster becomes one by itself, or the prologue or epilogue of an anchor beside it. One
// thread.
//
// How: nodes are visited from last to first, and each node and cluster gets a height greater than
// the heights of its users. So every edge between clusters leads downhill, and clusters of one
// height cannot reach one another. A node joins the highest clusters of its iteration shape that
// use it, merging them into one; where another user is as high, the cluster first rises above that,
// if all that the cluster reads stays above it. No path can then leave the cluster and come back.
// Other users get what they read as an output of the cluster.
#ifndef KEEL_GRAPH_PASSES_FUSE_CLUSTERS_H
#define KEEL_GRAPH_PASSES_FUSE_CLUSTERS_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/passes/users.h"

namespace keel {

struct FuseLimits {
  size_t instructions = 32;        // nodes of a cluster, constants not counted
  size_t inputs_and_outputs = 16;  // of a cluster, scalar constants not counted
};

// "%12 (add)" and "model.cpp:7", or "" where the node has no line: what reports call a node.
std::string described(const Node& node);
std::string line_of(const Node& node);

// Returns whether a node computes each element of its results from those at its place, does no
// more, and is not placed on the host.
bool is_elementwise(const Node& node);

// Returns whether a scalar constant is copied into the cluster that reads it.
bool is_scalar_constant(const Value& value);

struct Clusters {
  static constexpr uint32_t kNone = UINT32_MAX;

  std::vector<uint32_t> cluster_of;            // by node id; kNone: not element-wise, or dead
  std::vector<std::vector<uint32_t>> members;  // by cluster: node ids, ascending
  // Says by node id why it did not join its users; empty where it did, or where nobody asked.
  std::vector<std::string> declined;

  bool together(uint32_t a, uint32_t b) const {
    return cluster_of[a] != kNone && cluster_of[a] == cluster_of[b];
  }
};

// REQUIRES a graph with known shapes; nodes with unknown ones stay alone. `live` is by node id.
Clusters form_clusters(const Graph& graph, const std::vector<bool>& live, const Users& users,
                       const FuseLimits& limits = {});

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_FUSE_CLUSTERS_H
