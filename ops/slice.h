// Ops that cut tensors apart and put them together: slice, split, pad, concat. Any dtype; unknown
// dimensions (-1) pass through. Axes may be negative: -1 is the last.
//
// Each function adds one node (split: one for each part) to the graph of its operands. Errors and
// printed graphs name `site`, or where that is not given the line that made the first operand.
#ifndef KEEL_OPS_SLICE_H
#define KEEL_OPS_SLICE_H

#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// As an end of slice: as far as the axis goes.
inline constexpr int64_t kToEnd = std::numeric_limits<int64_t>::max();

// As the user gave them, one for each axis of x; slice_bounds resolves them.
struct SliceAttributes {
  std::vector<int64_t> begin;
  std::vector<int64_t> end;
  std::vector<int64_t> strides;
  static constexpr auto fields() {
    return std::tuple(field("begin", &SliceAttributes::begin), field("end", &SliceAttributes::end),
                      field("strides", &SliceAttributes::strides));
  }
};
struct PadAttributes {
  std::vector<int64_t> low;   // one for each axis, >= 0
  std::vector<int64_t> high;  // likewise
  double value = 0;           // converted to x's dtype
  static constexpr auto fields() {
    return std::tuple(field("low", &PadAttributes::low), field("high", &PadAttributes::high),
                      field("value", &PadAttributes::value));
  }
};
struct ConcatAttributes {
  int64_t axis = 0;  // counted from the front
  static constexpr auto fields() { return std::tuple(field("axis", &ConcatAttributes::axis)); }
};

// The elements that a slice takes along one axis: first, first + stride, ... (size of them).
struct SliceBounds {
  int64_t first = 0;
  int64_t stride = 1;
  int64_t size = 0;
};
// For axis `axis` of dimension `dim` (known). begin and end count from the back where negative and
// are clamped to the axis, as in NumPy.
KEEL_API SliceBounds slice_bounds(const SliceAttributes& attributes, size_t axis, int64_t dim);

// x[begin : end : stride] for the leading axes given, all of the others. Strides are >= 1, and 1
// where left out.
KEEL_API Value slice(Operand x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                     const std::vector<int64_t>& strides = {}, CallSite site = {});
// x cut into `parts` pieces of equal size along an axis, which must have a known dimension that is
// a multiple of it.
KEEL_API Values split(Operand x, int64_t parts, int64_t axis = 0, CallSite site = {});
// x cut into pieces of these sizes, which add up to the axis; its dimension must be known.
KEEL_API Values split_sizes(Operand x, const std::vector<int64_t>& sizes, int64_t axis = 0,
                            CallSite site = {});
// x with `low[i]` elements of `value` before and `high[i]` after axis i.
KEEL_API Value pad(Operand x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
                   double value = 0, CallSite site = {});
// The values one after another along an axis; all other dimensions are equal, and so are the
// dtypes.
KEEL_API Value concat(const std::vector<Operand>& values, int64_t axis = 0,
                      CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_SLICE_H
