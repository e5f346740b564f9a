// Ops that give the same elements another shape or order: reshape, squeeze, expand_dims, transpose,
// broadcast_to. Any dtype; unknown dimensions (-1) pass through. Axes may be negative: -1 is the
// last.
//
// Each function adds one node to the graph of its operand and returns its value. Errors and printed
// graphs name `site`, or where that is not given the line that made the operand.
#ifndef KEEL_OPS_SHAPE_H
#define KEEL_OPS_SHAPE_H

#include <cstdint>
#include <tuple>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Of reshape and broadcast_to. -1 has the meaning that the functions below give it.
struct ShapeAttributes {
  Shape shape;
  static constexpr auto fields() { return std::tuple(field("shape", &ShapeAttributes::shape)); }
};
// Of squeeze (axes of x) and expand_dims (axes of the result), counted from the front.
struct AxesAttributes {
  std::vector<int64_t> axes;
  static constexpr auto fields() { return std::tuple(field("axes", &AxesAttributes::axes)); }
};
struct TransposeAttributes {
  std::vector<int64_t> perm;  // a permutation of 0 to rank - 1
  static constexpr auto fields() { return std::tuple(field("perm", &TransposeAttributes::perm)); }
};

// The elements in row-major order under another shape. One dimension may be -1: what the number of
// elements leaves.
KEEL_API Value reshape(Operand x, const Shape& shape, CallSite site = {});
// Without the given axes, whose dimensions must be 1; without any list, without all dimensions
// known to be 1.
KEEL_API Value squeeze(Operand x, const std::vector<int64_t>& axes = {}, CallSite site = {});
// With new dimensions of 1 at these axes of the result.
KEEL_API Value expand_dims(Operand x, const std::vector<int64_t>& axes, CallSite site = {});
// Axis i of the result is axis perm[i] of x; without a permutation the axes in reverse order.
KEEL_API Value transpose(Operand x, const std::vector<int64_t>& perm = {}, CallSite site = {});
// x repeated along its dimensions of 1 and along new leading axes, as NumPy broadcasts it. -1 in
// `shape` keeps x's own dimension.
KEEL_API Value broadcast_to(Operand x, const Shape& shape, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_SHAPE_H
