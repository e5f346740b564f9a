// Gradients of while_loop and cond, made of other loops, conds and ops; ops/control.cpp hands them
// to the ops' definitions. They work on specialised graphs.
//
// A loop's gradient is a loop that runs backwards. Each turn reads the variables with which the
// forward's turn began and computes that turn once more, with the same count and so with the same
// random keys, then its gradient. What it reads is written by a twin of the forward loop, which has
// the same variables first and stacks of kept values behind them; `settle` puts the twin in the
// forward loop's place. With recompute_every k > 1 the twin keeps every k-th turn, and the way back
// goes by segments: it runs k turns forwards, keeping each, then those k backwards.
//
// A cond's gradient is a cond on the same predicate, which computes the branch once more.
//
// Bodies made here have parents and captures until `settle` has been there, which specialise sees
// to. Pure functions; any thread.
#ifndef KEEL_GRAPH_CONTROL_CONTROL_GRADIENT_H
#define KEEL_GRAPH_CONTROL_CONTROL_GRADIENT_H

#include <memory>

#include "keel/graph/ir/graph.h"

namespace keel {

// As OpDef::gradient. Throw Error for a loop without a bound, one that counts otherwise than
// while_loop() lets it, and one whose memory budget is too small.
Values gradient_of_while(const BuildContext& context);
Values gradient_of_cond(const BuildContext& context);

// Whether the node is a twin whose place is still elsewhere: an error in a graph that is not being
// expanded.
bool is_unsettled_twin(const Node& node);
// Whether a node of the graph has bodies with a parent.
bool needs_settling(const Graph& graph);
// The same graph with twins in place of the loops they stand for, all bodies without parents.
std::unique_ptr<Graph> settle(const Graph& graph);

}  // namespace keel

#endif  // KEEL_GRAPH_CONTROL_CONTROL_GRADIENT_H
