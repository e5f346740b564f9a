// Makes the body of a `fused` node from nodes of the graph that is fused. Reads the graph, changes
// nothing. One thread.
#ifndef KEEL_GRAPH_PASSES_FUSE_BODY_H
#define KEEL_GRAPH_PASSES_FUSE_BODY_H

#include <cstdint>
#include <memory>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel {

// Node ids, each behind those that it reads. A prologue node may also be computed elsewhere.
struct FusedParts {
  Values sources;  // what the anchor's operands are made from: the body's first inputs
  std::vector<uint32_t> prologue;
  const Node* anchor = nullptr;       // null in a cluster, which is an epilogue alone
  std::vector<const Node*> siblings;  // of a reduction; the prologue is that of all
  std::vector<uint32_t> epilogue;
  Values outputs;
};

struct FusedNode {
  std::shared_ptr<Graph> body;
  Values inputs;   // of the graph, paired with the body's
  Values outputs;  // of the graph, paired with the body's
  CallSite site;
  NodeLabelPtr label;  // the members' labels, and what these have in common
};

// Scalar constants are copied into the body, except where the anchor or a row-wise node reads them:
// those take their operands from memory.
FusedNode make_fused(const Graph& from, const FusedParts& parts);

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_FUSE_BODY_H
