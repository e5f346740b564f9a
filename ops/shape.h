// Ops that give the same elements another shape or order: reshape, squeeze, expand_dims, transpose,
// broadcast_to; and same_dims, which checks dimensions. Any dtype; unknown dimensions (-1) pass
// through. Axes may be negative: -1 is the last.
//
// Each function adds one node to the graph of its operand and returns its value. Errors and printed
// graphs name `site`, or where that is not given the line that made the operand.
#ifndef KEEL_OPS_SHAPE_H
#define KEEL_OPS_SHAPE_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Attributes of reshape and broadcast_to. -1 has the meaning that the functions below give it.
struct ShapeAttributes {
  Shape shape;
  static void fields(auto&& visit) { visit("shape", &ShapeAttributes::shape); }
};
// Attributes of squeeze (axes of x) and expand_dims (axes of the result), counted from the front.
struct AxesAttributes {
  std::vector<int64_t> axes;
  static void fields(auto&& visit) { visit("axes", &AxesAttributes::axes); }
};
struct TransposeAttributes {
  std::vector<int64_t> perm;  // a permutation of 0 to rank - 1
  static void fields(auto&& visit) { visit("perm", &TransposeAttributes::perm); }
};

// Attributes of same_dims: pairs of axes, counted from the front, and who asks, for the error.
struct SameDimsAttributes {
  std::vector<int64_t> axes, other_axes;
  std::string caller, argument;
  static void fields(auto&& visit) {
    visit("axes", &SameDimsAttributes::axes);
    visit("other_axes", &SameDimsAttributes::other_axes);
    visit("caller", &SameDimsAttributes::caller);
    visit("argument", &SameDimsAttributes::argument);
  }
};

// Returns the elements in row-major order under another shape. One dimension may be -1: what the
// number of elements leaves.
KEEL_API Value reshape(Operand x, const Shape& shape, CallSite site = {});
// Drops the given axes, whose dimensions must be 1; without any list, all dimensions
// known to be 1.
KEEL_API Value squeeze(Operand x, const std::vector<int64_t>& axes = {}, CallSite site = {});
// Inserts dimensions of 1 at these axes of the result.
KEEL_API Value expand_dims(Operand x, const std::vector<int64_t>& axes, CallSite site = {});
// Axis i of the result is axis perm[i] of x; without a permutation the axes in reverse order.
KEEL_API Value transpose(Operand x, const std::vector<int64_t>& perm = {}, CallSite site = {});
// x repeated along its dimensions of 1 and along new leading axes, as NumPy broadcasts it. -1 in
// `shape` keeps x's own dimension.
KEEL_API Value broadcast_to(Operand x, const Shape& shape, CallSite site = {});
// Zeros of this type, whose dimensions are known: a constant of one element, repeated. Those of a
// value whose dimensions are not known: zeros_like (composed/filled.h).
KEEL_API Value zeros_of(Graph& graph, const Type& type, CallSite site = CallSite::here());

// x, whose dimension at axes[i] must be that of `other` at other_axes[i]. For compositions of ops
// that broadcast where their caller does not: dimensions that are unknown now are checked when the
// graph is compiled for known ones, at no cost to the compiled step. Throws Error in the name of
// `attributes.caller`, about its `argument`, for dimensions that differ.
KEEL_API Value same_dims(const Value& x, const Value& other, SameDimsAttributes attributes,
                         CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_SHAPE_H
