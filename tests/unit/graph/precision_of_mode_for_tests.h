// A session's precision with a precision_mode and nothing else.
#ifndef KEEL_TESTS_UNIT_GRAPH_PRECISION_OF_MODE_FOR_TESTS_H
#define KEEL_TESTS_UNIT_GRAPH_PRECISION_OF_MODE_FOR_TESTS_H

#include <string>

#include "keel/graph/precision/precision.h"

namespace keel_test {

inline keel::Precision of_mode(const std::string& name) {
  keel::Precision precision;
  precision.mode = name;
  return precision;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_GRAPH_PRECISION_OF_MODE_FOR_TESTS_H
