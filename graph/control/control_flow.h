// Functional control flow: while_loop and cond with sub-graphs as bodies.
// Values of enclosing graphs used inside a body are captured and become loop
// invariants. What the functions compute belongs to their bodies, also where it reads nothing but
// such values: it is done in each turn, or where the branch is taken. Only in a loop of known
// turns, one at least, what does not change from turn to turn is done once. The types of loop
// variables are fixed.
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
  int64_t trip_count = -1;           // known number of iterations; -1: the condition decides
  int64_t max_trips = -1;            // promised upper bound; -1: none
  int64_t recompute_every = -1;      // see WhileOptions; -1: chosen
  int64_t memory_budget_bytes = -1;  // see WhileOptions; -1: none
  // While gradients are being expanded: the node of the same graph that this loop can stand for,
  // because its first variables are the same (control_gradient.h). -1 in every finished graph.
  int64_t forward_of = -1;
  static void fields(auto&& visit) {
    visit("trip_count", &WhileAttributes::trip_count);
    visit("max_trips", &WhileAttributes::max_trips);
    visit("recompute_every", &WhileAttributes::recompute_every);
    visit("memory_budget_bytes", &WhileAttributes::memory_budget_bytes);
    visit("forward_of", &WhileAttributes::forward_of);
  }
};

// A gradient runs the loop backwards and computes each iteration once more from its variables, so
// it needs a bound on their number, and the variables at the start of iterations 0, k, 2k ... are
// kept: ceil(trips / k) + (k > 1 ? k : 0) times their bytes. With k > 1 each iteration is computed
// once more than with 1. With k = 1, a known trip_count and room in the budget, what products make
// is kept as well, trips times its bytes, and only the rest is computed again; a RecomputeScope in
// the body keeps them out.
struct WhileOptions {
  std::optional<int64_t> trip_count;  // runs the body exactly that often; the
                                      // condition is not asked
  // Promises that there are no more iterations than this. A launch whose condition still holds
  // after so many fails.
  std::optional<int64_t> max_trips;
  std::optional<int64_t> recompute_every;      // k, at least 1
  std::optional<int64_t> memory_budget_bytes;  // for what is kept; the smallest k that fits is
                                               // taken, an Error when compiling where none does
};

using BodyFunction = std::function<Values(const Values&)>;
using ConditionFunction = std::function<Value(const Values&)>;

// While condition(vars) holds, vars = body(vars). Returns the final vars.
// Throws Error when the condition is not a bool scalar or the body changes the
// number or types of the variables.
KEEL_API Values while_loop(const std::vector<Operand>& init, const ConditionFunction& condition,
                           const BodyFunction& body, WhileOptions options = {},
                           CallSite site = CallSite::here());

// Returns then_body(operands) where `predicate` (bool scalar) holds, else else_body(operands); both
// give the same types. What the functions get are the operands themselves, captured.
KEEL_API Values cond(Operand predicate, const std::vector<Operand>& operands,
                     const BodyFunction& then_body, const BodyFunction& else_body,
                     CallSite site = CallSite::here());

// Returns what while_loop makes, with all attributes as given: for passes and gradients.
const Node& add_while_loop(const std::vector<Operand>& init, const ConditionFunction& condition,
                           const BodyFunction& body, WhileAttributes attributes, CallSite site);

// Returns a new random key for one random op of `graph`, or of the body that is being built in it:
// fold(seed, step, salt, iteration of each enclosing while_loop). The salt counts the random ops of
// the root graph, so it is fixed when the graph is built.
KEEL_API Value random_key(Graph& graph, CallSite site = CallSite::here());

// Returns the step graph under the sunk loop: a root graph with one `sunk_loop` node
// whose body is `step` and whose trip count is a launch argument.
std::unique_ptr<Graph> make_sunk_loop(std::shared_ptr<Graph> step);

}  // namespace keel

#endif  // KEEL_GRAPH_CONTROL_CONTROL_FLOW_H
