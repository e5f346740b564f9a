#include "keel/graph/runtime/placement_report.h"

#include "keel/core/base/checked.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/transfer.h"

namespace keel {
namespace {

int64_t bytes_of(const Type& type) {
  return static_cast<int64_t>(type.shape.num_bytes(type.dtype));
}

class Reporter {
 public:
  explicit Reporter(PlacementReport& report) : report_(report) {}

  void visit(const Graph& graph, const std::string& inside) {
    const std::vector<bool> live = live_nodes(graph);
    for (const Node& node : graph.nodes()) {
      if (!live[node.id()] || node.has(kSource | kView) || node.is(OpRole::kToken)) continue;
      if (node.has(kControl) && !is_fused_node(node)) {
        visit_bodies(node, inside);
      } else {
        add(node, inside);
      }
    }
  }

 private:
  void visit_bodies(const Node& node, const std::string& inside) {
    for (size_t i = 0; i < node.bodies().size(); ++i) {
      const bool is_step = node.is(OpRole::kSunkLoop);
      const std::string body = node.op_name() + " body " + std::to_string(i);
      visit(*node.bodies()[i], is_step ? "" : inside.empty() ? body : inside + ", " + body);
    }
  }

  void add(const Node& node, const std::string& inside) {
    const bool on_host = is_on_host(node);
    report_.nodes.push_back({.name = display_name(node),
                             .op = node.op_name(),
                             .inside = inside,
                             .site = node.site(),
                             .on_host = on_host,
                             .by_policy = is_placed_by_policy(node),
                             .rule = rule_of(node)});
    if (on_host) ++report_.host_tasks;
    if (report_.nodes.back().by_policy) ++report_.policy_tasks;
    if (const TransferAttributes* transfer = transfer_of(node)) count(*transfer, node.type());
  }

  static std::string rule_of(const Node& node) {
    if (is_on_host(node)) return placement_rule(node);
    if (const TransferAttributes* transfer = transfer_of(node))
      return std::string("a copy to the ") + transfer->to;
    return node.has(kEffect) ? "part of the launch" : "device kernel";
  }

  void count(const TransferAttributes& transfer, const Type& type) {
    const bool there = transfer.to == kToHost;
    int64_t& bytes = there ? report_.bytes_to_host : report_.bytes_to_device;
    ++(there ? report_.copies_to_host : report_.copies_to_device);
    bytes = checked_add(bytes, bytes_of(type));
  }

  PlacementReport& report_;
};

}  // namespace

std::string to_string(const NodePlacement& placement) {
  return placement.name + ": " + (placement.on_host ? "AI_CPU" : "device") + " by " +
         placement.rule + (placement.inside.empty() ? "" : ", in " + placement.inside) + ", " +
         to_string(placement.site);
}

PlacementReport report_placement(const Graph& graph, PlacementPolicy policy) {
  PlacementReport report;
  report.policy = policy;
  Reporter(report).visit(graph, "");
  return report;
}

std::string sunk_with_host_tasks(const PlacementReport& report) {
  if (report.host_tasks == 0) return "";
  return "sunk with " + std::to_string(report.host_tasks) + " host task" +
         (report.host_tasks == 1 ? "" : "s") + " in the step";
}

}  // namespace keel
