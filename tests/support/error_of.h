// What tests ask about errors: what was thrown, and whether a text says something.
#ifndef KEEL_TESTS_SUPPORT_ERROR_OF_H
#define KEEL_TESTS_SUPPORT_ERROR_OF_H

#include <string>

#include "keel/core/base/error.h"

namespace keel_test {

// The text of the Error that `call` throws; "" where it throws none.
template <class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const keel::Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_ERROR_OF_H
