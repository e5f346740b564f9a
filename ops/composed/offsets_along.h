// offsets_along: indices of one axis as offsets into what several axes become together, for
// compositions that make them one. A pure function; any thread that may build the graph.
#ifndef KEEL_OPS_COMPOSED_OFFSETS_ALONG_H
#define KEEL_OPS_COMPOSED_OFFSETS_ALONG_H

#include <cstddef>
#include <cstdint>

#include "keel/core/base/call_site.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Returns indices * stride, i64, for indices (i64 or i32) along the axis `axis` of this size. They
// are looked up in a table: an index out of range of its own axis must not end up in another row,
// and the error of the run names it, the axis and the size. REQUIRES size >= 0.
Value offsets_along(const Value& indices, size_t axis, int64_t size, int64_t stride, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_OFFSETS_ALONG_H
