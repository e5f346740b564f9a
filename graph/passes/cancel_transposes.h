// cancel_transposes (passes.h) for a backend: a transposition moves to where the values have
// another dtype only where the backend has it in that one. Internal to the library.
#ifndef KEEL_GRAPH_PASSES_CANCEL_TRANSPOSES_H
#define KEEL_GRAPH_PASSES_CANCEL_TRANSPOSES_H

#include <memory>

#include "keel/graph/passes/passes.h"

namespace keel {

// Without a backend to ask, as in the overload of passes.h, transpositions keep their dtypes.
std::unique_ptr<Graph> cancel_transposes(const Graph& graph, const SupportsFunction& supports);

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_CANCEL_TRANSPOSES_H
