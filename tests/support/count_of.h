// How often tests find a part in a text.
#ifndef KEEL_TESTS_SUPPORT_COUNT_OF_H
#define KEEL_TESTS_SUPPORT_COUNT_OF_H

#include <cstddef>
#include <string>

namespace keel_test {

// Counts the places where the part begins that do not overlap. REQUIRES a part that is not empty.
inline size_t count_of(const std::string& part, const std::string& text) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_COUNT_OF_H
