// Frames: which loop each node of a graph lies in, found by following Enter and Exit. A plain value
// of whoever converts; one thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_FRAMES_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_FRAMES_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/ops/exchange/graphdef/control_flow/graph.h"

namespace keel::graphdef {

struct Frame {
  std::string name;
  uint32_t parent = 0;
  uint32_t depth = 0;
  std::vector<uint32_t> members;  // its Enters lie in no list of members, its Exits in the parent's
  std::vector<uint32_t> enters;
  std::vector<uint32_t> exits;
  bool refused = false;
};

// Returns the frames, parents first: the first is the graph itself. Refuses nodes in two frames,
// and control flow nodes that do not form loops.
std::vector<Frame> find_frames(FlowGraph& flow, Refusals& refusals);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_FRAMES_H
