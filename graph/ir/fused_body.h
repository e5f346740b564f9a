// FusedBody: the parts of a `fused` node's body. The anchor is its product or reduction, found by
// trait: it decides how the work is cut. What leads to the anchor is the prologue, what follows the
// epilogue, which may end in row-wise ops. A body without an anchor is element-wise throughout, but
// for slices of its inputs' rows and joins of the rows that it computes. A reduction may have siblings: reductions of the same op over the
// same axes of operands of the same type, which are computed over one read of what they share.
// Their results leave as they are. Valid as long as the body is; immutable; any thread.
#ifndef KEEL_GRAPH_IR_FUSED_BODY_H
#define KEEL_GRAPH_IR_FUSED_BODY_H

#include <cstdint>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"

namespace keel {

// Returns whether the node is a `fused` one, or takes the slices of a table that indices name.
KEEL_API bool is_fused_node(const Node& node);
KEEL_API bool is_gather(const Node& node);

// Returns whether a body is grown around such a node: a product, or a reduction of one value.
KEEL_API bool is_anchor(const Node& node);

// Returns whether the node takes rows, by their numbers, out of a table.
KEEL_API bool gathers_rows(const Node& node);

// Returns whether the node only moves elements, a part of each row of its one operand, as a slice
// along the last axis does. Which elements these are is a matter of the op.
KEEL_API bool slices_rows(const Node& node);

// Returns whether the node only moves elements, all of its operands' rows, which it puts one behind
// the other, as a concat along the last axis does.
KEEL_API bool joins_rows(const Node& node);

// Returns the shape whose elements a body without an anchor goes over: that of its first result, or
// of what that joins.
KEEL_API const Shape& iteration_shape(const Graph& body);

// Returns whether two reductions differ in nothing but their operand's values.
KEEL_API bool are_siblings(const Node& a, const Node& b);

struct KEEL_API FusedBody {
  enum class Part : uint8_t { kSource, kPrologue, kAnchor, kEpilogue, kRowWise };

  FusedBody() = default;  // no parts
  explicit FusedBody(const Graph& body);

  Part part_of(const Value& v) const { return part[v.node_id()]; }

  const Node* anchor = nullptr;       // the first, where there are several
  std::vector<const Node*> siblings;  // the other anchors
  std::vector<const Node*> prologue;
  std::vector<const Node*> epilogue;  // without an anchor: all there is
  std::vector<const Node*> row_wise;  // row-wise ops, whose results leave
  std::vector<Part> part;             // by node id
};

}  // namespace keel

#endif  // KEEL_GRAPH_IR_FUSED_BODY_H
