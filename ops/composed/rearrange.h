// Other orders of the same elements: reverse, roll, tile, embedding. Compositions of slice, concat,
// broadcast_to and gather in the graph of x. Any dtype; unknown dimensions (-1) pass through. Axes
// may be negative: -1 is the last.
//
// Errors and printed graphs name `site`, or where that is not given the line that made x.
#ifndef KEEL_OPS_COMPOSED_REARRANGE_H
#define KEEL_OPS_COMPOSED_REARRANGE_H

#include <cstdint>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// x with these axes backwards; an empty list means all of them.
KEEL_API Value reverse(Operand x, const std::vector<int64_t>& axes = {}, CallSite site = {});

// x moved on by `shift` places along an axis of known size; what leaves at the end comes back at
// the beginning. A negative shift moves towards the beginning.
KEEL_API Value roll(Operand x, int64_t shift, int64_t axis = -1, CallSite site = {});

// Returns [batch, ...] as [batch, all other elements of an item]: what stands between convolutions
// and dense layers. Throws Error for a scalar, and where both of these numbers are unknown.
KEEL_API Value flatten(Operand x, CallSite site = {});

// x repeated repeats[i] times along axis i, one number >= 0 for each axis: [1 2] twice is [1 2 1
// 2].
KEEL_API Value tile(Operand x, const std::vector<int64_t>& repeats, CallSite site = {});

// Returns the rows of `table`, [rows, features], that ids name: ids of any integer dtype and shape
// [...] give [..., features]. The gradient of the table adds up what meets in a row, in the order
// of the ids. An id out of range is an error at run time that names it.
KEEL_API Value embedding(Operand table, Operand ids, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_REARRANGE_H
