// next_multiple: when something that is done every so many steps is due next. A pure function; any
// thread. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_NEXT_MULTIPLE_H
#define KEEL_GRAPH_RUNTIME_NEXT_MULTIPLE_H

#include <cstdint>

#include "keel/core/base/checked.h"

namespace keel {

// Returns the first multiple of `n` behind `step`. Throws Error where it does not fit.
inline int64_t next_multiple(int64_t step, int64_t n) {
  return checked_mul(step / n + 1, n, "steps");
}

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_NEXT_MULTIPLE_H
