// precision_table: what a precision mode makes of each op on a device, for people. A pure function;
// any thread.
#ifndef KEEL_GRAPH_PRECISION_PRECISION_TABLE_H
#define KEEL_GRAPH_PRECISION_PRECISION_TABLE_H

#include <string>
#include <vector>

#include "keel/graph/passes/passes.h"
#include "keel/graph/precision/precision.h"

namespace keel {

struct PrecisionRow {
  std::string op;
  DType dtype = f32;   // of the graph
  std::string choice;  // "f16 (white list: low)", "composed of other ops", "none: <why>"
};

// Returns rows of the built-in ops for nodes in f32, f16 and bf16, as far as an op takes these.
KEEL_API std::vector<PrecisionRow> precision_table(const ResolvedPrecision& precision,
                                                   const SupportsFunction& supports);

}  // namespace keel

#endif  // KEEL_GRAPH_PRECISION_PRECISION_TABLE_H
