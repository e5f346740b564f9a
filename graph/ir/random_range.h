// random_range: which numbers describe a distribution to draw from, for the initializers of states
// and for the random ops. A pure function; any thread. Internal.
#ifndef KEEL_GRAPH_IR_RANDOM_RANGE_H
#define KEEL_GRAPH_IR_RANDOM_RANGE_H

#include <string>

#include "keel/core/base/export.h"

namespace keel {

// `distribution` is "uniform", of range [a, b), or one of "normal" and "trunc_normal", of mean a
// and deviation b. Throws Error, naming `op` and the argument, for what is not finite, b - a of a
// range included, for low > high and for a deviation < 0.
KEEL_API void require_random_range(const std::string& op, const std::string& distribution, double a,
                                   double b);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_RANDOM_RANGE_H
