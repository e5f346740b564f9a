#include "keel/ops/exchange/graphdef/control_flow/functionalise.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "keel/ops/exchange/graphdef/control_flow/bodies.h"
#include "keel/ops/exchange/graphdef/control_flow/contexts.h"
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

// Finds the nodes that change what later steps find, be it in a body that they call.
class Effects {
 public:
  explicit Effects(const std::map<std::string, Body>& bodies) {
    std::unordered_map<std::string, std::vector<std::string>> callers;
    std::vector<std::string> open;
    for (const auto& entry : bodies)
      for (const NodeDef& node : entry.second.nodes) {
        if (has_effects(node.op)) open.push_back(entry.first);
        for_each_call(node, [&](const std::string& name) {
          if (bodies.count(name) != 0) callers[name].push_back(entry.first);
        });
      }
    while (!open.empty()) {
      const std::string name = std::move(open.back());
      open.pop_back();
      if (!bodies_.insert(name).second) continue;
      open.insert(open.end(), callers[name].begin(), callers[name].end());
    }
  }

  bool are_of(const NodeDef& node) const {
    bool found = has_effects(node.op);
    for_each_call(node, [&](const std::string& name) { found |= bodies_.count(name) != 0; });
    return found;
  }

 private:
  std::unordered_set<std::string> bodies_;  // that have effects
};

struct Converted {
  std::vector<NodeDef> nodes;
  std::vector<std::string> conditional;  // nodes with effects that not every run reaches
};

std::vector<std::string> effects_beside(const FlowGraph& flow,
                                        const std::vector<uint32_t>& unconditional,
                                        const Effects& effects) {
  const std::unordered_set<uint32_t> runs(unconditional.begin(), unconditional.end());
  std::vector<std::string> found;
  for (uint32_t node = 0; node < flow.nodes.size(); ++node)
    if (flow[node].context != kNever && runs.count(node) == 0 &&
        effects.are_of(flow[node].definition))
      found.push_back(flow.name(node));
  return found;
}

// Returns what `nodes` of a graph or body become.
Converted convert(const std::vector<NodeDef>& nodes, const std::vector<std::string>& arguments,
                  const std::vector<std::string>& results, const Effects& effects,
                  BodyLibrary& library, Refusals& refusals) {
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
  const std::vector<uint32_t> unconditional = region.unconditional();
  return {write_nodes(flow, unconditional, Captures()),
          effects_beside(flow, unconditional, effects)};
}

// An effect that is in none of the nodes and in none of their bodies would be lost in silence: only
// nodes without a value wait for it, and no Merge chooses such.
void check_effects(const Converted& converted, const BodyLibrary& library,
                   const std::map<std::string, Body>& bodies, Refusals& lost) {
  if (converted.conditional.empty()) return;
  std::unordered_set<std::string> kept;
  for (const std::string& body : library.needed_by({&converted.nodes}))
    for (const NodeDef& node : bodies.at(body).nodes) kept.insert(node.name);
  for (const std::string& node : converted.conditional)
    if (kept.count(node) == 0)
      lost.add(node, "runs in a branch or a loop, and no value of it depends on it");
}

// The conversion of a graph and of its bodies.
class Conversion {
 public:
  Conversion(const GraphDef& graph, const std::vector<std::string>& fetches)
      : result(graph), library(result.bodies, count_nodes(graph)), effects_(graph.bodies) {
    for (const auto& [name, body] : graph.bodies)
      if (has_control_flow(body.nodes))
        convert_list(body.nodes, body.arguments, body.results, name + "/",
                     result.bodies[name].nodes);
    if (has_control_flow(graph.nodes))
      conditional = convert_list(graph.nodes, {}, fetches, "", result.nodes);
  }

  GraphDef result;
  BodyLibrary library;
  Refusals refused, lost;
  std::vector<std::string> conditional;  // nodes of the graph with effects

 private:
  static size_t count_nodes(const GraphDef& graph) {
    size_t count = graph.nodes.size();
    for (const auto& entry : graph.bodies) count += entry.second.nodes.size();
    return count;
  }

  std::vector<std::string> convert_list(const std::vector<NodeDef>& nodes,
                                        const std::vector<std::string>& arguments,
                                        const std::vector<std::string>& results,
                                        const std::string& prefix, std::vector<NodeDef>& made) {
    Refusals refused_here, lost_here;
    Converted converted = convert(nodes, arguments, results, effects_, library, refused_here);
    check_effects(converted, library, result.bodies, lost_here);
    refused.add(refused_here, prefix);
    lost.add(lost_here, prefix);
    made = std::move(converted.nodes);
    return std::move(converted.conditional);
  }

  Effects effects_;
};

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
  Conversion conversion(graph, fetches);
  conversion.refused.throw_if_any(graph.source, "has control flow that cannot be converted",
                                  "export the graph with control flow of version 2 (If and While)");
  conversion.lost.throw_if_any(graph.source,
                               "has effects, such as assignments, that not every run reaches",
                               "leave what waits for them out of the outputs, or assign in every "
                               "run a value that the condition chooses");
  conversion.library.remove_unused(conversion.result.nodes);
  return std::move(conversion.result);
}

ControlFlowFindings examine_control_flow(const GraphDef& graph) {
  GraphDef examined = graph;
  remove_uncalled_bodies(examined);
  const Conversion conversion(examined, {});
  return {conversion.refused.reasons(), conversion.conditional};
}

}  // namespace keel::graphdef
