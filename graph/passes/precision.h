// apply_precision: which nodes of a step compute in a 16-bit dtype. A mode is a table: a rule for
// each op or trait, first match first; adding a mode is adding a table. What the graph holds and
// hands out (states, updates, outputs, bodies' inputs and outputs) keeps its dtype under every
// mode. Plain values and pure functions; any thread.
#ifndef KEEL_GRAPH_PASSES_PRECISION_H
#define KEEL_GRAPH_PASSES_PRECISION_H

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/graph/passes/passes.h"

namespace keel {

enum class PrecisionRule {
  // f32 operands are rounded to the mode's dtype. Products become wide ones: their sums stay f32.
  // Anything else computes in the low dtype, results rounded to it.
  kLow,
  kKeep,    // f32 operands, f32 results
  kFollow,  // low where every f32 operand is there in the low dtype already, else kept
};

struct PrecisionEntry {
  std::string what;     // of which nodes, in words
  std::string op;       // a name; empty: of any op
  uint32_t traits = 0;  // at least one of them; 0: any
  PrecisionRule rule = PrecisionRule::kKeep;
};

struct PrecisionMode {
  std::string name;
  std::string summary;                  // one line for users
  std::optional<DType> low;             // none: the graph is left as it is
  std::vector<PrecisionEntry> entries;  // nodes that no entry names are kept
};

inline constexpr const char* kDefaultPrecision = "fp32";

// The scoped attribute (ir/scopes.h) that exempts nodes from every mode, and its only value: they,
// and their gradients, compute in the graph's dtypes.
//   const AttributeScope exact(g, kPrecisionAttribute, kKeepPrecision);
inline constexpr const char* kPrecisionAttribute = "precision";
inline constexpr const char* kKeepPrecision = "keep";

// Returns all modes, the default first.
KEEL_API const std::vector<PrecisionMode>& precision_modes();
KEEL_API std::vector<std::string> precision_names();
// Throws Error (kInvalidArgument) naming the modes.
KEEL_API const PrecisionMode& find_precision_mode(const std::string& name);

// Reports what became of a node that computes in f32 where no mode is chosen.
struct PrecisionDecision {
  std::string op;
  std::string name;    // with its scope, "hidden1/matmul"
  CallSite site;       // the user's line
  DType dtype = f32;   // of its f32 operands now
  std::string rule;    // "products: low (f32 sums)": the entry that decided, and what it came to
  std::string inside;  // "while_loop body 1" of nodes in bodies; else empty
};
// "hidden1/matmul: bf16 by products: low (f32 sums), model.cpp:12".
KEEL_API std::string to_string(const PrecisionDecision& decision);

struct PrecisionReport {
  std::string mode = kDefaultPrecision;
  std::vector<PrecisionDecision> decisions;  // in the order of the nodes; none where nothing is low
};

// Throws Error for a node, in bodies too, whose attribute kPrecisionAttribute has another value
// than kKeepPrecision: under the default mode nothing else would notice a misspelt one.
KEEL_API void check_precision_attributes(const Graph& graph);

// Returns the graph with f32 nodes computed as the mode says, bodies included; one cast for each
// value however many read it. Appends to `report` if there is one. REQUIRES a specialised,
// decomposed graph and a mode with a low dtype. Throws Error naming the op, its line and the
// backend's reason where the backend declines what a rule asks for.
KEEL_API std::unique_ptr<Graph> apply_precision(const Graph& graph, const PrecisionMode& mode,
                                                const SupportsFunction& supports,
                                                PrecisionReport* report = nullptr);

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_PRECISION_H
