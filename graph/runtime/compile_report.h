// CompileReport: what compilation decided and added that a user cannot see in the graph: where the
// loop runs and why, the control tasks around a sunk step, what is computed in which dtype and
// where. Plain values, the same for every loop size but for loop_size and wall times.
#ifndef KEEL_GRAPH_RUNTIME_COMPILE_REPORT_H
#define KEEL_GRAPH_RUNTIME_COMPILE_REPORT_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/core/device/program.h"
#include "keel/graph/precision/apply_precision.h"
#include "keel/graph/runtime/placement_report.h"

namespace keel {

enum class LoopKind {
  kDevice,  // sunk: the device goes from step to step by itself
  kHost,    // the backend declines to loop, or data_sink is off: the host launches each step and
            // waits for it
  kNone,    // the step cannot be looped at all
};
// "device", "host", "none".
KEEL_API const char* name_of(LoopKind kind) noexcept;

struct LoopPlacement {
  LoopKind kind = LoopKind::kNone;
  std::string reason;  // why not on the device; empty where it is
  CallSite site;       // the user's line that asked for the loop, or that cannot be looped
};

// Reports what a pass left of the graph, and its wall time. The last one, "backend", is the
// backend's own compiler: tasks instead of nodes.
struct PassReport {
  std::string name;   // "specialise", which also expands gradients; "fuse"; "backend"
  int64_t nodes = 0;  // of the graph after it, bodies not counted
  int64_t wall_ns = 0;
};

struct CompileReport {
  LoopPlacement loop;                    // kNone for a program that is no loop
  int64_t loop_size = 1;                 // N of the last launch: an argument, no compiled value
  std::vector<InsertedOp> inserted_ops;  // of a sunk step: LOOP_INC, LOOP_SWITCH, LOOP_ACTIVE,
                                         // LOOP_RESET
  std::vector<PassReport> passes;        // in the order in which they ran
  // Those that were off, and what the conflicts of the table made of that (pass_table.h).
  std::vector<std::string> disabled_passes;
  std::vector<std::string> notices;
  PrecisionReport precision;
  // Lists what did not become one task with its neighbour and why (FuseReport), of the step.
  std::vector<std::string> not_fused;
  PlacementReport placement;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_COMPILE_REPORT_H
