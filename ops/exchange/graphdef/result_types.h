// The dtypes that a node of a TensorFlow graph says its results have. Plain function; any thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_RESULT_TYPES_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_RESULT_TYPES_H

#include <cstddef>

#include "keel/ops/exchange/graphdef/file/graph_def.h"

namespace keel::graphdef {

// Returns the dtype of that result of a node, or kInvalid where neither the node nor what is known
// of its op says it.
DataType result_type(const NodeDef& node, size_t output);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_RESULT_TYPES_H
