// Ops that take parts of tensors and put them together: slice, pad, concat, stack; split is in
// split.h. Any dtype; unknown dimensions (-1) pass through. Axes may be negative: -1 is the last.
// Models are mostly written with indexing (ops/composed/indexing.h), which is made of these.
//
// slice, pad and concat are one node each in the graph of their operands; stack is made of concat.
// Errors and printed graphs name `site`, or where that is not given the line that made the first
// operand.
#ifndef KEEL_OPS_SLICE_H
#define KEEL_OPS_SLICE_H

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// A bound of slice that means as far as the axis goes, and back to its first element inclusive (the
// end of a slice with a negative stride).
inline constexpr int64_t kToEnd = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kToStart = std::numeric_limits<int64_t>::min();

// Attributes as the user gave them, one for each axis of x; slice_bounds resolves them.
struct SliceAttributes {
  std::vector<int64_t> begin;
  std::vector<int64_t> end;
  std::vector<int64_t> strides;
  static void fields(auto&& visit) {
    visit("begin", &SliceAttributes::begin);
    visit("end", &SliceAttributes::end);
    visit("strides", &SliceAttributes::strides);
  }
};
struct PadAttributes {
  std::vector<int64_t> low;   // one for each axis, >= 0
  std::vector<int64_t> high;  // likewise
  double value = 0;           // converted to x's dtype
  // One for each axis, >= 0, or none at all: how many elements come between two neighbours.
  std::vector<int64_t> interior = {};
  static void fields(auto&& visit) {
    visit("low", &PadAttributes::low);
    visit("high", &PadAttributes::high);
    visit("value", &PadAttributes::value);
    visit("interior", &PadAttributes::interior);
  }
};
struct ConcatAttributes {
  int64_t axis = 0;  // counted from the front
  static void fields(auto&& visit) { visit("axis", &ConcatAttributes::axis); }
};

// The elements that a slice takes along one axis: first, first + stride, ... (size of them).
struct SliceBounds {
  int64_t first = 0;
  int64_t stride = 1;
  int64_t size = 0;
};
// Returns the bounds for axis `axis` of dimension `dim` (known). begin and end count from the back
// where negative and are clamped to the axis, as in NumPy. The stride is 1 where there is at most
// one element.
KEEL_API SliceBounds slice_bounds(const SliceAttributes& attributes, size_t axis, int64_t dim);

// x[begin : end : stride] for the leading axes given, all of the others. Strides are 1 where left
// out and never 0; a negative one goes backwards from begin to before end, so that begin = kToEnd,
// end = kToStart and stride = -1 reverse an axis.
KEEL_API Value slice(Operand x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                     const std::vector<int64_t>& strides = {}, CallSite site = {});
// x with `low[i]` elements of `value` before and `high[i]` after axis i.
KEEL_API Value pad(Operand x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
                   double value = 0, CallSite site = {});
// Does the same with `interior[i]` elements of `value` between every two neighbours of axis i, too,
// so that a slice with a stride of interior[i] + 1 takes x out again.
KEEL_API Value pad_interior(Operand x, const std::vector<int64_t>& low,
                            const std::vector<int64_t>& high, const std::vector<int64_t>& interior,
                            double value = 0, CallSite site = {});
// Returns the values one after another along an axis; all other dimensions are equal, and so are
// the dtypes. Throws Error where there is none.
KEEL_API Value concat(const Values& values, int64_t axis = 0, CallSite site = CallSite::here());
// Returns the values, of one type, side by side along a new axis of the result.
KEEL_API Value stack(const Values& values, int64_t axis = 0, CallSite site = CallSite::here());

// True if these types are Values and then, perhaps, an axis.
template <class... Types>
inline constexpr bool kValuesThenAxis = true;
template <class Last>
inline constexpr bool kValuesThenAxis<Last> = std::is_same_v<Last, Value> ||
                                              (std::is_integral_v<Last> &&
                                               !std::is_same_v<Last, bool>);
template <class First, class Second, class... Rest>
inline constexpr bool kValuesThenAxis<First, Second, Rest...> =
    std::is_same_v<First, Value>&& kValuesThenAxis<Second, Rest...>;

// The arguments of the functions below, taken apart.
struct JoinArguments {
  void take(Value value) { values.push_back(value); }
  void take(int64_t number) { axis = number; }
  Values values;
  int64_t axis = 0;
};

// concat(a, b, c) and concat(a, b, c, axis), stack likewise: what is called without a list is found
// without the namespace, which a braced list is not.
template <class... Rest>
requires kValuesThenAxis<Rest...> Value concat(Operand first, Value second, Rest... rest) {
  JoinArguments joined{{first.value(), second}};
  (joined.take(rest), ...);
  return concat(joined.values, joined.axis, first.site());
}
template <class... Rest>
requires kValuesThenAxis<Rest...> Value stack(Operand first, Value second, Rest... rest) {
  JoinArguments joined{{first.value(), second}};
  (joined.take(rest), ...);
  return stack(joined.values, joined.axis, first.site());
}

}  // namespace keel

#endif  // KEEL_OPS_SLICE_H
