// split: a value cut into parts along an axis. One node gives all of them, so that their gradients
// are put together at once. Errors name `site`, or where that is not given the line that made x.
#ifndef KEEL_OPS_SPLIT_H
#define KEEL_OPS_SPLIT_H

#include <cstdint>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct SplitAttributes {
  std::vector<int64_t> sizes;  // of the parts along the axis
  int64_t axis = 0;
  static void fields(auto&& visit) {
    visit("sizes", &SplitAttributes::sizes);
    visit("axis", &SplitAttributes::axis);
  }
};

// x cut into `parts` pieces of equal size along an axis, which must have a known dimension that is
// a multiple of it.
KEEL_API Values split(Operand x, int64_t parts, int64_t axis = 0, CallSite site = {});
// x cut into pieces of these sizes, which add up to the axis; its dimension must be known.
KEEL_API Values split_sizes(Operand x, const std::vector<int64_t>& sizes, int64_t axis = 0,
                            CallSite site = {});
// Returns the parts of an axis, each without it: x[0], x[1], ... for axis 0. Its dimension must be
// known.
KEEL_API Values unstack(Operand x, int64_t axis = 0, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_SPLIT_H
