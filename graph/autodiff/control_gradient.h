// Gradients of while_loop and cond, made of other loops, conds and ops; ops/control.cpp hands them
// to the ops' definitions. They work on specialised graphs.
//
// A loop's gradient is a loop that runs backwards. Each turn reads the variables with which the
// forward's turn began and computes that turn once more, with the same count and so with the same
// random keys, then its gradient. What it reads is written by a checkpointed forward: a loop with
// the variables of the forward loop first and stacks of kept values behind them, which
// `place_checkpointed_forwards` puts in the forward loop's place. Where it keeps every turn it
// keeps what products made, too (BodyGradient::made_by_products). With recompute_every k > 1 the
// checkpointed forward keeps every k-th turn, and the way back goes by segments: it runs k turns
// forwards, keeping each, then those k backwards.
//
// A cond's gradient is a cond on the same predicate, which computes the branch once more.
//
// Bodies made here have parents and captures until `place_checkpointed_forwards` removes them,
// which specialise sees to. Pure functions; any thread.
#ifndef KEEL_GRAPH_AUTODIFF_CONTROL_GRADIENT_H
#define KEEL_GRAPH_AUTODIFF_CONTROL_GRADIENT_H

#include <memory>

#include "keel/graph/ir/graph.h"

namespace keel {

// These are the ops' OpDef::gradient. They throw Error for a loop without a bound, one that counts
// otherwise than while_loop() lets it, and one whose memory budget is too small.
Values gradient_of_while(const BuildContext& context);
Values gradient_of_cond(const BuildContext& context);

// Returns true if the node is a checkpointed forward that still stands beside its loop. Only a
// graph whose gradients are being expanded may have one.
bool is_checkpointed_forward(const Node& node);
// Returns true if a node of the graph has bodies with a parent.
bool has_open_bodies(const Graph& graph);
// Returns the same graph with checkpointed forwards in place of the loops they stand for, and with
// all bodies without parents.
std::unique_ptr<Graph> place_checkpointed_forwards(const Graph& graph);

}  // namespace keel

#endif  // KEEL_GRAPH_AUTODIFF_CONTROL_GRADIENT_H
