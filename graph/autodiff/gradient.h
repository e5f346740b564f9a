// Reverse-mode gradients, graph to graph. `gradients` records one `gradient`
// node whose outputs have the types of the values asked for; specialise expands
// it into ordinary nodes (innermost first, so gradients of gradients work).
#ifndef KEEL_GRAPH_AUTODIFF_GRADIENT_H
#define KEEL_GRAPH_AUTODIFF_GRADIENT_H

#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"

namespace keel {

// d y / d x for each x; y is a float scalar of the graph the xs are in. Zeros
// where y does not depend on x, or only through integers or stop_gradient.
// Throws Error, naming the op and the user's line, where a node on the path
// cannot be differentiated, y is no float scalar, or an x is no float.
KEEL_API Values gradients(Operand y, const Values& xs, CallSite site = CallSite::here());

// Appends the nodes that compute the gradients of the ys (floats of one graph) together and returns
// one Value for each x of that graph: the expansion used by specialise and by the gradients of
// control ops. All types of the graph are concrete; `seeds` are the gradients of the ys, of their
// types.
Values expand_gradients(const Values& ys, const Values& xs, const Values& seeds, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_AUTODIFF_GRADIENT_H
