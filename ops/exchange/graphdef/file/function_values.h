// Names of values in the functions of a graph's library. There "node:output:1" is the second value
// of what the op calls "output"; in a graph, and in a Body, values are numbered through: "node:1".
// Plain functions; any thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_FUNCTION_VALUES_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_FUNCTION_VALUES_H

#include "keel/ops/exchange/graphdef/file/graph_def.h"

namespace keel::graphdef {

// Renames the inputs of the body's nodes and its results. A name that says nothing that can be
// understood stays, and is one that no node gives.
void number_function_values(Body& body);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_FUNCTION_VALUES_H
