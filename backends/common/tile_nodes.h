// TileNodes: the nodes of an element-wise cluster in the order in which a tile program computes
// them, with the chains that they form (vector_chain.h): runs of nodes each of which takes what the
// one before it gives. Views, broadcasts, and slices and joins of rows are not computed. Owned by
// whoever builds a tile program. Pure functions; any thread.
#ifndef KEEL_BACKENDS_COMMON_TILE_NODES_H
#define KEEL_BACKENDS_COMMON_TILE_NODES_H

#include <optional>
#include <vector>

#include "keel/backends/common/vector_chain.h"
#include "keel/graph/ir/graph.h"

namespace keel {

struct TileNode {
  const Node* node = nullptr;
  std::vector<Value> inputs;  // behind views and broadcasts
  Value result;
  // Set where the node selects by a comparison that is computed with it: then the operands of the
  // comparison come first among the inputs, in place of its result.
  std::optional<vector::ChainOp> select = std::nullopt;
  bool continues = false;  // takes the result of the node before it, as the next of its chain
};

// A slice that is read where its operand lies, which is an input of the body: the part of each row
// that begins at element `begin` and is as long as a row of the slice. It has the iteration shape
// (supports_tiles).
struct RowSlice {
  Value value;
  Value of;
  int64_t begin = 0;
};

// A value, behind views and broadcasts, that is stored to an output: it is the output, or becomes
// the part of each of its rows that begins at element `begin`, where the output joins several.
struct ClusterResult {
  Value value;
  size_t output = 0;
  int64_t begin = 0;
  bool is_part = false;
};

struct TileNodes {
  Shape shape;     // iterated over
  Values inputs;   // of the node or body
  Values outputs;  // of the node or body
  std::vector<ClusterResult> results;
  std::vector<TileNode> nodes;  // each behind those that make its inputs
  std::vector<RowSlice> slices;
};

// Returns the slice that a node of a body is; nothing for any other node, and for slices along
// other axes than the last, with a stride, or of what the body computes.
std::optional<RowSlice> row_slice_of(const Node& node);

// Returns whether a node of a body is a concat along the last axis, whose operands are stored where
// they are to lie.
bool is_row_join(const Node& node);

// Returns whether a node of a body is computed; a view and a join of rows are not, and a broadcast
// and a slice of rows are read as they are.
bool is_computed(const Node& node);

// Returns one element-wise node, or the nodes of a cluster's body.
TileNodes tile_nodes_of(const Node& node);
TileNodes tile_nodes_of(const Graph& body);

// Computes comparisons with what selects by them, and orders the nodes so that chains lie together.
// A chain has at most kMostChainNodes.
void form_chains(TileNodes& cluster);
inline constexpr size_t kMostChainNodes = 16;

// Says whether a node may be part of a chain.
bool is_chain_node(const TileNode& node);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_TILE_NODES_H
