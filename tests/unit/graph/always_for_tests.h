// A condition of loops that only their number of turns ends.
#ifndef KEEL_TESTS_UNIT_GRAPH_ALWAYS_FOR_TESTS_H
#define KEEL_TESTS_UNIT_GRAPH_ALWAYS_FOR_TESTS_H

#include "keel/graph/ir/graph.h"

namespace keel_test {

inline keel::Value always(const keel::Values& variables) {
  return variables[0].graph().constant(keel::Tensor::full(keel::boolean, {}, 1));
}

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_GRAPH_ALWAYS_FOR_TESTS_H
