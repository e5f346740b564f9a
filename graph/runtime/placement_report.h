// PlacementReport: where each node of a compiled step runs, by which rule, and what is copied for
// it between the memories of device and host. Plain values.
#ifndef KEEL_GRAPH_RUNTIME_PLACEMENT_REPORT_H
#define KEEL_GRAPH_RUNTIME_PLACEMENT_REPORT_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/graph/ir/placement.h"

namespace keel {

struct NodePlacement {
  std::string name;    // as people read it; a fused node has its members' names
  std::string op;      // its kind
  std::string inside;  // "while_loop body 1" of nodes in bodies; else empty
  CallSite site;       // the user's line
  bool on_host = false;
  bool by_policy = false;  // the policy `mixed` placed it there
  // "device kernel", "part of the launch", "a copy to the host", "HostScope", "the precision mode",
  // "policy mixed because ..."
  std::string rule;
};
// "loss/exp: AI_CPU by policy mixed because ..., in while_loop body 1, model.cpp:12"; others run on
// "device".
KEEL_API std::string to_string(const NodePlacement& placement);

struct PlacementReport {
  PlacementPolicy policy = PlacementPolicy::kFull;
  // Every node that computes, in the order of the step, bodies included; sources, views and control
  // flow itself are none.
  std::vector<NodePlacement> nodes;
  int64_t host_tasks = 0;    // nodes on the host
  int64_t policy_tasks = 0;  // of those, what the policy placed there
  // Copies that the policy's nodes need, and their bytes; one in the body of a loop counts once.
  int64_t copies_to_host = 0, bytes_to_host = 0;
  int64_t copies_to_device = 0, bytes_to_device = 0;
};

// Reports on a graph that is compiled; of a sunk loop on its step.
PlacementReport report_placement(const Graph& graph, PlacementPolicy policy);

// "sunk with 3 host tasks in the step"; empty where there is none.
KEEL_API std::string sunk_with_host_tasks(const PlacementReport& report);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_PLACEMENT_REPORT_H
