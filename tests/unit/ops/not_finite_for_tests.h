// Doubles that are not finite.
#ifndef KEEL_TESTS_UNIT_OPS_NOT_FINITE_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_NOT_FINITE_FOR_TESTS_H

#include <limits>

namespace keel::testing {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_OPS_NOT_FINITE_FOR_TESTS_H
