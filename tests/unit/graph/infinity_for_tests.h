// A number that makes a training step overflow.
#ifndef KEEL_TESTS_UNIT_GRAPH_INFINITY_FOR_TESTS_H
#define KEEL_TESTS_UNIT_GRAPH_INFINITY_FOR_TESTS_H

#include <limits>

namespace keel_test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_GRAPH_INFINITY_FOR_TESTS_H
