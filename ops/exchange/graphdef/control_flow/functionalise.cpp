#include "keel/ops/exchange/graphdef/control_flow/functionalise.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "keel/ops/exchange/graphdef/control_flow/bodies.h"
#include "keel/ops/exchange/graphdef/control_flow/frames.h"
#include "keel/ops/exchange/graphdef/control_flow/graph.h"
#include "keel/ops/exchange/graphdef/control_flow/loops.h"
#include "keel/ops/exchange/graphdef/control_flow/region.h"

namespace keel::graphdef {

namespace {

bool has_control_flow(const std::vector<NodeDef>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const NodeDef& node) { return flow_kind(node.op) != FlowKind::kPlain; });
}

void check_results(const FlowGraph& flow, const Region& region, Refusals& refusals) {
  for (const FlowValue& result : flow.results) {
    const FlowNode& node = flow[result.node];
    if (node.frame != 0) {
      refusals.add(node.definition.name, "is fetched, but lies in a loop");
    } else if (node.kind == FlowKind::kSwitch || region.context_of(result) != kAlways) {
      refusals.add(node.definition.name,
                   "is fetched, but has a value in one branch of a condition only");
    }
  }
}

// Returns the nodes that `nodes` of a graph or body become.
std::vector<NodeDef> convert(const std::vector<NodeDef>& nodes,
                             const std::vector<std::string>& arguments,
                             const std::vector<std::string>& results, BodyLibrary& library,
                             Refusals& refusals) {
  FlowGraph flow(nodes, arguments, results, refusals);
  if (flow.malformed) return {};
  const size_t refused = refusals.count();
  std::vector<Frame> frames = find_frames(flow, refusals);
  if (refusals.count() != refused) return {};
  for (size_t i = frames.size(); i-- > 1;) {
    Frame& parent = frames[frames[i].parent];
    if (frames[i].refused || !LoopConverter(flow, frames[i], parent, library, refusals).convert())
      parent.refused = true;
  }
  if (frames.front().refused) return {};
  Region region(flow, frames.front().members, library, refusals);
  if (!region.convert()) return {};
  check_results(flow, region, refusals);
  return write_nodes(flow, region.unconditional(), Captures());
}

}  // namespace

std::vector<ControlFlowNode> version_1_control_flow(const GraphDef& graph) {
  std::vector<ControlFlowNode> found;
  const auto look_at = [&](const std::vector<NodeDef>& nodes, const std::string& body) {
    for (const NodeDef& node : nodes)
      if (flow_kind(node.op) != FlowKind::kPlain) found.push_back({node.name, node.op, body});
  };
  look_at(graph.nodes, "");
  for (const auto& [name, body] : graph.bodies) look_at(body.nodes, name);
  return found;
}

bool has_version_1_control_flow(const GraphDef& graph) {
  return has_control_flow(graph.nodes) ||
         std::any_of(graph.bodies.begin(), graph.bodies.end(),
                     [](const auto& body) { return has_control_flow(body.second.nodes); });
}

GraphDef functionalise(const GraphDef& graph, const std::vector<std::string>& fetches) {
  GraphDef result = graph;
  Refusals refusals;
  size_t size = graph.nodes.size();
  for (const auto& [name, body] : graph.bodies) size += body.nodes.size();
  BodyLibrary library(result.bodies, size);
  for (const auto& [name, body] : graph.bodies) {
    if (!has_control_flow(body.nodes)) continue;
    result.bodies[name].nodes =
        convert(body.nodes, body.arguments, body.results, library, refusals);
  }
  if (has_control_flow(graph.nodes))
    result.nodes = convert(graph.nodes, {}, fetches, library, refusals);
  refusals.throw_if_any(graph.source);
  library.remove_unused(result.nodes);
  return result;
}

}  // namespace keel::graphdef
