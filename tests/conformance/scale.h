// How many random cases a conformance test draws.
#ifndef KEEL_TESTS_CONFORMANCE_SCALE_H
#define KEEL_TESTS_CONFORMANCE_SCALE_H

#include "support/scale.h"

namespace keel::conformance {

// Returns how many cases of each op: 50, or 1000 with KEEL_TEST_SCALE=long.
inline int cases_for_each_op() { return keel_test::long_scale() ? 1000 : 50; }

}  // namespace keel::conformance

#endif  // KEEL_TESTS_CONFORMANCE_SCALE_H
