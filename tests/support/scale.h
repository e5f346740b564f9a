// Whether tests are to take long: KEEL_TEST_SCALE=long.
#ifndef KEEL_TESTS_SUPPORT_SCALE_H
#define KEEL_TESTS_SUPPORT_SCALE_H

#include <cstdlib>
#include <string>

namespace keel_test {

inline bool long_scale() {
  const char* scale = std::getenv("KEEL_TEST_SCALE");
  return scale != nullptr && std::string(scale) == "long";
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_SCALE_H
