// Rules of several families share these functions of shapes: axes, and operands that broadcast in
// the way of old op sets. Pure functions; those that take Values add nodes to the graph of these.
#ifndef KEEL_OPS_EXCHANGE_ONNX_IMPORT_SHAPES_H
#define KEEL_OPS_EXCHANGE_ONNX_IMPORT_SHAPES_H

#include <cstdint>
#include <numeric>
#include <vector>

#include "keel/ops/axes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/shape.h"

namespace keel::onnx {

// Returns the axis counted from the front. Throws RefusedNode where there is none.
inline size_t front_axis(const NodeContext& c, int64_t axis, size_t rank) {
  const int64_t front = axis_from_front(axis, rank);
  if (front < 0 || front >= static_cast<int64_t>(rank)) {
    c.refuse("there is no axis " + std::to_string(axis) + " of " + std::to_string(rank) +
             " dimensions");
  }
  return static_cast<size_t>(front);
}

inline std::vector<int64_t> front_axes(const NodeContext& c, const std::vector<int64_t>& axes,
                                       size_t rank) {
  std::vector<int64_t> front;
  for (const int64_t axis : axes) front.push_back(static_cast<int64_t>(front_axis(c, axis, rank)));
  return front;
}

// Returns 0, 1, ..., rank - 1 from `first` on.
inline std::vector<int64_t> axes_from(size_t first, size_t rank) {
  std::vector<int64_t> axes(rank > first ? rank - first : 0);
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(first));
  return axes;
}

// Returns x without these axes; where the node names none, without each dimension of 1, for which
// all of them have to be known: the rank of the result depends on them.
inline Value squeezed(NodeContext& c, const Value& x, const std::vector<int64_t>& axes) {
  if (axes.empty()) c.known_shape(x, "its input, of which it drops each 1 as it names no axes,");
  return squeeze(x, axes, {});
}

// Returns x under the shape that these numbers say. The only one that follows from open dimensions
// is left to be inferred: no other number than the file's own fits. Beside another open one (-1)
// the trials say what does not change with it, which polynomials alone let them.
inline Value reshaped(NodeContext& c, const Value& x, SizeNumbers target) {
  size_t open = 0;
  bool other = false;
  for (size_t i = 0; i < target.values.size(); ++i) {
    open += target.origins[i] != Origin::kFile || target.values[i] == kUnknownDim ? 1 : 0;
    other = other || target.origins[i] == Origin::kOther;
  }
  if (open > 1 && other) c.refuse(kFollowsFromSizes);
  for (size_t i = 0; i < target.values.size() && open == 1; ++i)
    if (target.origins[i] != Origin::kFile) target.values[i] = kUnknownDim;
  return reshape(x, Shape(target.values), {});
}

// Returns a vector, or a value of several axes, put along the axes from `axis` on of `rank`
// dimensions, for broadcasting.
inline Value along_axis(const Value& x, size_t axis, size_t rank) {
  const size_t own = x.shape({}).rank();
  std::vector<int64_t> axes;
  for (size_t i = axis + own; i < rank; ++i) axes.push_back(static_cast<int64_t>(i - axis));
  return axes.empty() ? x : expand_dims(x, axes, {});
}

// Refuses a parameter of another shape than one number for each channel of x, along axis 1.
inline void require_of_channels(const NodeContext& c, const Value& parameter, const Value& x,
                                const char* what) {
  c.require_shape(parameter, {x.shape({})[1]}, what);
}

struct OperandPair {
  Value a, b;
};
// Returns inputs 0 and 1. Before version 7 an op broadcast its second one where it said so, along
// the axes from `axis` on.
inline OperandPair broadcast_operands(NodeContext& c) {
  OperandPair pair{c.in(0), c.in(1)};
  if (c.version() >= 7 || !c.node().domain.empty()) return pair;
  c.ignore("consumed_inputs");
  const size_t rank = pair.a.shape({}).rank();
  const int64_t broadcast = c.attribute("broadcast", int64_t{0});
  if (!c.has_attribute("axis")) return pair;
  const int64_t axis = c.attribute("axis", int64_t{0});
  if (broadcast != 0) pair.b = along_axis(pair.b, front_axis(c, axis, rank), rank);
  return pair;
}

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_IMPORT_SHAPES_H
