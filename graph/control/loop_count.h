// The count of a while_loop's turns: the hidden first variable of its bodies. Pure functions; any
// thread. Internal to Keel.
#ifndef KEEL_GRAPH_CONTROL_LOOP_COUNT_H
#define KEEL_GRAPH_CONTROL_LOOP_COUNT_H

#include <cstdint>

#include "keel/graph/ir/graph.h"

namespace keel {

// Returns whether the value is this i64 number, known before the run.
inline bool is_count(const Value& v, int64_t number) {
  if (!v.node().is(OpRole::kConstant)) return false;
  return bit_equal(v.node().as<ConstantAttributes>().value, Tensor::scalar(number));
}

// Returns whether each turn of a loop with this body makes its count one larger, as those of
// while_loop() do. Where the count begins at 0, it is the number of turns before.
inline bool counts_up(const Graph& body) {
  const Node& next = body.outputs()[0].node();
  return next.is(OpRole::kAdd) && next.input(0) == body.inputs()[0] && is_count(next.input(1), 1);
}

}  // namespace keel

#endif  // KEEL_GRAPH_CONTROL_LOOP_COUNT_H
