#include <map>
#include <set>
#include <string>
#include <utility>

#include "keel/ops/exchange/graphdef/control_flow/functionalise.h"
#include "keel/ops/exchange/graphdef/control_flow/refusals.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/graphdef/selection.h"
#include "keel/ops/exchange/graphdef/translate.h"
#include "keel/ops/exchange/migration/file_kinds.h"

namespace keel::migration {
namespace {

using graphdef::GraphDef;
using graphdef::NodeDef;

constexpr const char* kGraphDefModule = "GraphDef";

// Returns the graph without what assigns in its functions. Each such node has a row that says so,
// and an import would say nothing else.
GraphDef without_assignments_in_functions(GraphDef graph) {
  const graphdef::OpRules rules;
  for (auto& entry : graph.bodies) {
    for (NodeDef& node : entry.second.nodes) {
      const graphdef::OpRule* rule = rules.find(node.op);
      if (rule == nullptr || rule->assigns.empty()) continue;
      node.op = "NoOp";
      node.attributes.clear();
      std::erase_if(node.inputs, [](const std::string& input) { return !input.starts_with('^'); });
    }
  }
  return graph;
}

using NamesAndOps = std::set<std::pair<std::string, std::string>>;

// Returns the nodes outside of functions and those inside.
std::pair<NamesAndOps, NamesAndOps> names_and_ops(const GraphDef& graph) {
  NamesAndOps outside, inside;
  for (const NodeDef& node : graph.nodes) outside.insert({node.name, node.op});
  for (const auto& entry : graph.bodies) {
    for (const NodeDef& node : entry.second.nodes) inside.insert({node.name, node.op});
  }
  return {std::move(outside), std::move(inside)};
}

// Adds the reasons why the importer does not take nodes, by their names. Throws AssignsInside.
void add_refusals(const GraphDef& graph, std::map<std::string, std::string>& reasons) {
  try {
    graphdef::import_graph(
        graph, {.control_flow = graphdef::ControlFlow::kConvert, .weights_in_graph = false});
  } catch (const onnx::Unsupported& unsupported) {
    const auto [outside, inside] = names_and_ops(graph);
    for (const onnx::Refusal& refusal : unsupported.refusals()) {
      for (const std::string& name : refusal.nodes) {
        // A node in a function has its own row, and may have the name of one outside.
        const std::pair<std::string, std::string> node(name, refusal.op);
        if (outside.count(node) == 0 && inside.count(node) != 0) continue;
        reasons.emplace(name, refusal.reason);
      }
    }
  } catch (const graphdef::OutputsAreOpen&) {
    // Ops alone are judged.
  } catch (const graphdef::Unconvertible&) {
    // Values that no node reads may lie in branches, and need not be outputs; what cannot be
    // converted whatever the outputs are is found by examine_control_flow.
  }
}

// Reasons why the importer does not take nodes: of a frozen graph, all of which is tried. The
// outputs of another one are for its user to choose, so there ops alone are judged.
std::map<std::string, std::string> refusals_of(const GraphDef& graph) {
  std::map<std::string, std::string> reasons;
  try {
    add_refusals(graph, reasons);
  } catch (const graphdef::AssignsInside&) {
    try {
      add_refusals(without_assignments_in_functions(graph), reasons);
    } catch (const graphdef::AssignsInside&) {
      // Each node that assigns in a branch or a loop of version 1 has such a row, too.
    }
  }
  return reasons;
}

class GraphJudge {
 public:
  GraphJudge(const GraphDef& graph, const ApiTable& table)
      : table_(table), reasons_(refusals_of(graph)) {
    for (const graphdef::ControlFlowNode& node : graphdef::version_1_control_flow(graph))
      version_1_.insert({node.body, node.name});
    graphdef::ControlFlowFindings found = graphdef::examine_control_flow(graph);
    unconvertible_ = std::move(found.refused);
    conditional_.insert(found.conditional.begin(), found.conditional.end());
  }

  Finding judge(const NodeDef& node, const std::string& body) const {
    const std::string path = body.empty() ? node.name : body + "/" + node.name;
    if (const auto reason = unconvertible_.find(path); reason != unconvertible_.end())
      return {kGraphDefModule, node.op, Level::kUnsupportedNoPlan, reason->second};
    if (version_1_.count({body, node.name}) != 0) {
      return {kGraphDefModule, node.op, Level::kApiAfterTool,
              "keel import --control-flow v2 makes loops and conditionals of it"};
    }
    if (const auto reason = reasons_.find(node.name); body.empty() && reason != reasons_.end())
      return {kGraphDefModule, node.op, Level::kUnsupportedNoPlan, reason->second};
    if (const graphdef::OpRule* rule = rules_.find(node.op); rule != nullptr) {
      const bool is_inside = !body.empty() || conditional_.count(node.name) != 0;
      if (is_inside && !rule->assigns.empty())
        return {kGraphDefModule, node.op, Level::kUnsupportedNoPlan,
                std::string("it ") + graphdef::kAssignsInside +
                    "; it may stay where no output needs it"};
      return {kGraphDefModule, node.op, Level::kSupported, "keel import takes it as it is"};
    }
    if (graphdef::is_from_outside(node))
      return {kGraphDefModule, node.op, Level::kSupported,
              "becomes an input of the imported graph"};
    const std::string name = std::string(kGraphDefModule) + "." + node.op;
    if (!table_.has_row(name)) {
      return {kGraphDefModule, node.op, Level::kUnsupportedNoPlan,
              "there is no rule for this op; it may stay where no output needs it"};
    }
    Finding finding = table_.judge({.module = kGraphDefModule, .text = name, .known = true});
    finding.name = node.op;
    return finding;
  }

 private:
  const ApiTable& table_;
  graphdef::OpRules rules_;
  std::map<std::string, std::string> reasons_;
  std::set<std::pair<std::string, std::string>> version_1_;  // by body and name
  std::map<std::string, std::string> unconvertible_;         // reasons
  std::set<std::string> conditional_;                        // nodes that not every run reaches
};

}  // namespace

void read_graph_def(const std::string& path, const ScanContext& context, ReportBuilder& report) {
  const GraphDef graph = graphdef::read_graph_def(path);
  const GraphJudge judge(graph, context.table);
  for (const NodeDef& node : graph.nodes) report.add(0, node.name, judge.judge(node, ""));
  for (const auto& entry : graph.bodies) {
    for (const NodeDef& node : entry.second.nodes)
      report.add(0, entry.first + "/" + node.name, judge.judge(node, entry.first));
  }
}

}  // namespace keel::migration
