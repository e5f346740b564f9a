// with_at_least: how a composition checks an axis whose size is not known when it is built, so that
// what is too small for an op inside is refused in the words of its caller. A pure function; any
// thread that may build the graph.
#ifndef KEEL_OPS_COMPOSED_AT_LEAST_H
#define KEEL_OPS_COMPOSED_AT_LEAST_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "keel/core/base/call_site.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Returns x behind a check that its axis `axis` has `count` elements or more, which is made when
// the graph is compiled for known sizes and is gone from the compiled step. Throws Error in the
// name of `caller`, about its `argument`. REQUIRES count > 0.
Value with_at_least(const Value& x, size_t axis, int64_t count, const std::string& caller,
                    const std::string& argument, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_AT_LEAST_H
