// The logistic function in double, for plain loops beside gates of recurrent ops.
#ifndef KEEL_TESTS_UNIT_OPS_LOGISTIC_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_LOGISTIC_FOR_TESTS_H

#include <cmath>

namespace keel::testing {

inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_OPS_LOGISTIC_FOR_TESTS_H
