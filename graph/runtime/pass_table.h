// The compiler's passes as a table, in the order in which compile() runs them: what each is called
// and does, whether it may be switched off, and whether a bit depends on it; and a second table of
// which passes need each other. SessionOptions::disabled_passes and `keel --disable-pass` name
// passes by it. Immutable; any thread.
#ifndef KEEL_GRAPH_RUNTIME_PASS_TABLE_H
#define KEEL_GRAPH_RUNTIME_PASS_TABLE_H

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/core/resource/hash_table.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/precision/apply_precision.h"

namespace keel {

// Holds what passes need beside the graph, and what they report.
struct PassContext {
  const SupportsFunction& supports;
  const ResolvedPrecision& precision;
  PlacementPolicy placement = PlacementPolicy::kFull;
  std::string place = kHostPlace;  // where the device keeps tables
  // Set by decompose: a node is left that the backend has in another form alone.
  bool some_other_form = false;
  PrecisionReport precision_report = {};
  FuseReport fuse_report = {};
};

struct Pass {
  const char* name;
  const char* summary;
  // Says why it cannot be switched off; empty: it can.
  const char* required;
  // Says which results have other bits without it; empty: none.
  const char* changes_bits;
  // Returns the new graph, or null where the graph stays as it is. Null: a stage of compile() that
  // goes by the request.
  std::unique_ptr<Graph> (*run)(const Graph& graph, PassContext& context);

  bool may_be_disabled() const noexcept { return *required == '\0'; }
};

KEEL_API std::span<const Pass> passes();

// Says what follows when all passes `off` are switched off.
struct PassConflict {
  std::vector<std::string> off;
  std::string also_off;  // a pass that is of no use then and goes off with them
  std::string why;
};
KEEL_API std::span<const PassConflict> pass_conflicts();

struct PassSelection {
  std::vector<std::string> disabled;  // in the order of the table, each once
  std::vector<std::string> notices;   // one for each conflict that was met

  bool runs(const Pass& pass) const;
};
// Returns the names sorted and each once, so that equal programs have equal keys.
std::vector<std::string> in_one_order(std::vector<std::string> names);

// Returns the passes that are off where `names` are to be: those, and what follows by the
// conflicts. Throws Error (kInvalidArgument) for a name that no pass has, with the nearest, and for
// a pass that is required, with the reason.
KEEL_API PassSelection select_passes(const std::vector<std::string>& names,
                                     CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_PASS_TABLE_H
