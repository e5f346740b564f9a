// Functional control flow: while_loop and cond with sub-graphs as bodies.
// Values of enclosing graphs used inside a body are captured and become loop
// invariants. The types of loop variables are fixed.
#ifndef KEEL_GRAPH_CONTROL_CONTROL_FLOW_H
#define KEEL_GRAPH_CONTROL_CONTROL_FLOW_H

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"

namespace keel {

// Inputs of both bodies: the iteration count (i64 scalar, hidden from users),
// the loop variables, the captures. The condition gives one bool scalar; the
// body gives the next loop variables. Node inputs pair with body inputs; node
// outputs are the final count and the final loop variables.
struct WhileAttributes {
  int64_t trip_count = -1;  // known number of iterations; -1: the condition decides
  int64_t max_trips = -1;   // promised upper bound; -1: none
  static constexpr auto fields() {
    return std::tuple(field("trip_count", &WhileAttributes::trip_count),
                      field("max_trips", &WhileAttributes::max_trips));
  }
};

struct WhileOptions {
  std::optional<int64_t> trip_count;  // runs the body exactly that often; the
                                      // condition is not asked
  std::optional<int64_t> max_trips;
};

using BodyFunction = std::function<Values(const Values&)>;
using ConditionFunction = std::function<Value(const Values&)>;

// While condition(vars) holds, vars = body(vars). Returns the final vars.
// Throws Error when the condition is not a bool scalar or the body changes the
// number or types of the variables.
KEEL_API Values while_loop(const std::vector<Operand>& init, const ConditionFunction& condition,
                           const BodyFunction& body, WhileOptions options = {},
                           CallSite site = CallSite::here());

// then_body(operands) where `predicate` (bool scalar) holds, else
// else_body(operands); both give the same types.
KEEL_API Values cond(Operand predicate, const std::vector<Operand>& operands,
                     const BodyFunction& then_body, const BodyFunction& else_body,
                     CallSite site = CallSite::here());

// A new random key for one random op built in `graph`: fold(seed, step, salt,
// iteration of each enclosing while_loop). The salt counts the random ops of
// the root graph, so it is fixed when the graph is built.
KEEL_API Value random_key(Graph& graph, CallSite site = CallSite::here());

// The step graph under the sunk loop: a root graph with one `sunk_loop` node
// whose body is `step` and whose trip count is a launch argument.
std::unique_ptr<Graph> make_sunk_loop(std::shared_ptr<Graph> step);

}  // namespace keel

#endif  // KEEL_GRAPH_CONTROL_CONTROL_FLOW_H
