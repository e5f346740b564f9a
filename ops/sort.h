// sort and top_k: elements in order along an axis, with their indices. Number dtypes. The order is
// stable in both directions: elements that are equal, 0 and -0 among them, stay in the order of
// their indices. NaN counts as the largest, as in argmax: it comes last, and first where
// descending.
//
// Each function adds one node to the graph of its operand. Errors and printed graphs name `site`,
// or where that is not given the line that made the operand. Gradients flow to the values.
#ifndef KEEL_OPS_SORT_H
#define KEEL_OPS_SORT_H

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct SortAttributes {
  int64_t axis = 0;  // from the front
  bool descending = false;
  static void fields(auto&& visit) {
    visit("axis", &SortAttributes::axis);
    visit("descending", &SortAttributes::descending);
  }
};
struct TopKAttributes {
  int64_t k = 1;
  int64_t axis = 0;  // from the front
  static void fields(auto&& visit) {
    visit("k", &TopKAttributes::k);
    visit("axis", &TopKAttributes::axis);
  }
};

struct Sorted {
  Value values;   // of x's dtype
  Value indices;  // i64: where each lay along the axis
};

// Returns all elements along an axis, which may be negative (-1 is the last), from the smallest to
// the largest, or the other way round.
KEEL_API Sorted sort(Operand x, int64_t axis = -1, bool descending = false, CallSite site = {});
// Returns the k largest along an axis, the largest first: the beginning of what `sort` gives
// descending. k is at least 0 and at most the axis.
KEEL_API Sorted top_k(Operand x, int64_t k, int64_t axis = -1, CallSite site = {});

// Compares which of two elements comes first, for the reference and for kernels: less than 0 where
// a does, greater where b does, 0 where their indices decide.
template <class T>
int ascending_order(T a, T b) {
  static_assert(std::is_arithmetic_v<T>, "halves are compared as what they are widened to");
  if constexpr (std::is_floating_point_v<T>) {
    const bool a_is_nan = std::isnan(a), b_is_nan = std::isnan(b);
    if (a_is_nan || b_is_nan) return (a_is_nan ? 1 : 0) - (b_is_nan ? 1 : 0);
  }
  return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace keel

#endif  // KEEL_OPS_SORT_H
