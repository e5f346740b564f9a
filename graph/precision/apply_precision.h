// apply_precision: the pass that has each node of a step compute as its precision mode says. What
// the graph holds and hands out (states, updates, outputs, bodies' inputs and outputs) keeps its
// dtype under every mode. Pure functions; any thread.
#ifndef KEEL_GRAPH_PRECISION_APPLY_PRECISION_H
#define KEEL_GRAPH_PRECISION_APPLY_PRECISION_H

#include <memory>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/precision/precision.h"

namespace keel {

// Reports what became of a node that computes in f32, f16 or bf16.
struct PrecisionDecision {
  std::string op;
  std::string name;    // with its scope, "hidden1/matmul"
  CallSite site;       // the user's line
  DType dtype = f32;   // of its first such operand now, or of its result where it has none
  std::string rule;    // "products: low (f32 sums)": the entry that decided, and what it came to
  std::string inside;  // "while_loop body 1" of nodes in bodies; else empty
};
// "hidden1/matmul: bf16 by products: low (f32 sums), model.cpp:12".
KEEL_API std::string to_string(const PrecisionDecision& decision);

struct PrecisionReport {
  std::string mode = kDefaultPrecision;
  bool is_default = false;                   // nobody named it
  std::vector<PrecisionDecision> decisions;  // in the order of the nodes; none in fp32
  // Rules without effect: for nodes that there are not, and such as the mode does not look at.
  std::vector<std::string> unused;
};

// Throws Error for a node, in bodies too, whose attribute kPrecisionAttribute has another value
// than kKeepPrecision: under a mode that leaves the graph as it is nothing else would notice a
// misspelt one.
KEEL_API void check_precision_attributes(const Graph& graph);

// Returns whether a node computes in some form of its entry: what decompose() is to be asked with
// where a mode has more to offer than the dtypes of the graph. Only nodes that have no
// decomposition are left to f32 or the host processor.
KEEL_API Support supports_in_some_form(const Node& node, const ResolvedPrecision& precision,
                                       const SupportsFunction& supports);

// Reports on a graph that is left as it is: by a mode without a low dtype, where the backend takes
// each node in the dtypes of the graph.
KEEL_API PrecisionReport report_kept_precision(const Graph& graph,
                                               const ResolvedPrecision& precision);

// Returns the graph with each node computed as the mode says, bodies included; one cast for each
// value and dtype however many read it. Fills in `report` if there is one. REQUIRES a
// specialised, decomposed graph. Throws Error naming the op, its line and the backend's reasons
// where it declines every form of a node's entry, and for a rule of customised dtypes that does not
// fit its node.
KEEL_API std::unique_ptr<Graph> apply_precision(const Graph& graph,
                                                const ResolvedPrecision& precision,
                                                const SupportsFunction& supports,
                                                PrecisionReport* report = nullptr);

}  // namespace keel

#endif  // KEEL_GRAPH_PRECISION_APPLY_PRECISION_H
