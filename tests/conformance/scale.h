// How many random cases a conformance test draws.
#ifndef KEEL_TESTS_CONFORMANCE_SCALE_H
#define KEEL_TESTS_CONFORMANCE_SCALE_H

#include <cstdlib>
#include <string>

namespace keel::conformance {

// Returns how many cases of each op: 50, or 1000 with KEEL_TEST_SCALE=long.
inline int cases_for_each_op() {
  const char* scale = std::getenv("KEEL_TEST_SCALE");
  return scale != nullptr && std::string(scale) == "long" ? 1000 : 50;
}

}  // namespace keel::conformance

#endif  // KEEL_TESTS_CONFORMANCE_SCALE_H
