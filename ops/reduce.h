// Reductions: sums, products and extremes of a value along some of its axes. Axes may be negative
// (-1 is the last); an empty list means all of them. With keepdims reduced axes stay with size 1,
// else they go. The result has the input's dtype unless said otherwise. Corner cases (empty axes,
// NaN, ties, integer wrap) are listed in ops/README.md.
//
// Each function adds one node to the graph of its operand and returns its value. Errors and printed
// graphs name `site`, or where that is not given the line that made the operand.
#ifndef KEEL_OPS_REDUCE_H
#define KEEL_OPS_REDUCE_H

#include <cstdint>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Attributes of all reductions but argmax. Axes count from the front, each once, ascending; none
// means all.
struct ReduceAttributes {
  std::vector<int64_t> axes;
  bool keepdims = false;
  // A sum alone has parts, along the first axis and perhaps others: sums of parts of the first
  // axis, which are added as a tree (ops/sums/part_sums.h).
  int64_t parts = 1;
  static void fields(auto&& visit) {
    visit("axes", &ReduceAttributes::axes);
    visit("keepdims", &ReduceAttributes::keepdims);
    visit("parts", &ReduceAttributes::parts);
  }
};
struct ArgmaxAttributes {
  int64_t axis = 0;  // from the front
  bool keepdims = false;
  static void fields(auto&& visit) {
    visit("axis", &ArgmaxAttributes::axis);
    visit("keepdims", &ArgmaxAttributes::keepdims);
  }
};

// Integers wrap in their own dtype. 0 over an empty axis.
KEEL_API Value sum(Operand x, const std::vector<int64_t>& axes = {}, bool keepdims = false,
                   CallSite site = {});
// Floats only. NaN over an empty axis.
KEEL_API Value mean(Operand x, const std::vector<int64_t>& axes = {}, bool keepdims = false,
                    CallSite site = {});
// NaN where there is one; an empty axis is an Error. The gradient goes to all elements that tie, in
// equal parts.
KEEL_API Value max(Operand x, const std::vector<int64_t>& axes = {}, bool keepdims = false,
                   CallSite site = {});
KEEL_API Value min(Operand x, const std::vector<int64_t>& axes = {}, bool keepdims = false,
                   CallSite site = {});
// Integers wrap. 1 over an empty axis. The gradient is right where elements are 0.
KEEL_API Value prod(Operand x, const std::vector<int64_t>& axes = {}, bool keepdims = false,
                    CallSite site = {});
// log(sum(exp(x))) without overflow. Floats only; an empty axis is an Error.
KEEL_API Value logsumexp(Operand x, const std::vector<int64_t>& axes = {}, bool keepdims = false,
                         CallSite site = {});
// Returns the first index, i64, of the largest element along one axis; NaN counts as largest. An
// empty axis is an Error.
KEEL_API Value argmax(Operand x, int64_t axis = -1, bool keepdims = false, CallSite site = {});

// x summed over the axes along which a value of `shape` was broadcast to x's shape: what gradients
// of broadcasting ops end with. x itself where the shapes are equal. REQUIRES that `shape`
// broadcasts to x's shape.
KEEL_API Value sum_to_shape(Operand x, const Shape& shape, CallSite site = {});

// The functions below say how reductions change shapes: `reduced` marks axes of `shape`.
std::vector<bool> reduced_axes(const std::vector<int64_t>& axes, size_t rank);
Shape reduced_shape(const Shape& shape, const std::vector<bool>& reduced, bool keepdims);

}  // namespace keel

#endif  // KEEL_OPS_REDUCE_H
