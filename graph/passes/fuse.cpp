#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/passes/fuse_anchors.h"
#include "keel/graph/passes/fuse_clusters.h"
#include "keel/graph/passes/fuse_order.h"
#include "keel/graph/passes/fuse_prologues.h"
#include "keel/graph/passes/fuse_rows.h"
#include "keel/graph/passes/fuse_units.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/passes/shared_bodies.h"
#include "keel/graph/passes/users.h"

namespace keel {
namespace {

// Finds which element-wise nodes make units, as far as the backend takes their clusters.
class ClusteredUnits {
 public:
  ClusteredUnits(const Graph& graph, SharedBodies& bodies, FuseReport* report)
      : live_(live_nodes(graph)),
        users_(graph, live_),
        clusters_(form_clusters(graph, live_, users_)),
        units_(accepted(graph, bodies, report)) {}

  const FuseUnits& units() const { return units_; }
  const Clusters& clusters() const { return clusters_; }
  // Returns the fused node of a unit of several nodes.
  FusedNode& fused(uint32_t unit) { return fused_.at(units_.nodes(unit).back()); }

 private:
  FuseUnits accepted(const Graph& graph, SharedBodies& bodies, FuseReport* report) {
    const FuseUnits whole(graph, ordered_units(graph, live_, users_, clusters_));
    FuseUnits all(graph, with_prologues_apart(whole, bodies));
    std::vector<std::vector<uint32_t>> kept;
    for (uint32_t unit = 0; unit < all.count(); ++unit) {
      const std::vector<uint32_t>& nodes = all.nodes(unit);
      if (nodes.size() == 1 || takes(all, unit, bodies, report)) {
        kept.push_back(nodes);
      } else {
        for (const uint32_t id : nodes) kept.push_back({id});
      }
    }
    return kept.size() == all.count() ? std::move(all) : FuseUnits(graph, std::move(kept));
  }

  // Returns whether the backend takes a cluster as one node.
  bool takes(const FuseUnits& all, uint32_t unit, SharedBodies& bodies, FuseReport* report) {
    const std::vector<uint32_t>& nodes = all.nodes(unit);
    FusedNode fused = bodies.fuse(all.graph(), {.epilogue = nodes, .outputs = all.outputs(unit)});
    const Support& support = bodies.ask(fused);
    if (support.supported) {
      fused_.emplace(nodes.back(), std::move(fused));
    } else if (report != nullptr) {
      report->add(described(all.first(unit)) + " to " + described(all.last(unit)) + ", " +
                      std::to_string(nodes.size()) +
                      " nodes: the backend declines: " + support.reason,
                  line_of(all.last(unit)));
    }
    return support.supported;
  }

  std::vector<bool> live_;
  Users users_;
  Clusters clusters_;
  std::unordered_map<uint32_t, FusedNode> fused_;  // by a cluster's last node
  FuseUnits units_;
};

// Copies a graph with each group of units as one node.
class Fuser {
 public:
  Fuser(const Graph& from, Graph& to, const SupportsFunction& supports, FuseReport* report)
      : from_(from),
        to_(to),
        supports_(supports),
        report_(report),
        rewriter_(from, to),
        bodies_(supports),
        clustered_(from, bodies_, report),
        units_(clustered_.units()),
        groups_(units_, bodies_, report),
        rows_(units_, groups_, bodies_) {}

  void run() {
    rewriter_.clone_inputs();
    for (const Value& state : from_.states()) rewriter_.clone(state.node());
    for (const FusedTask& task : fuse_order(units_, groups_)) {
      if (task.is_group)
        emit_fused(groups_.fused(task.number));
      else
        emit_unit(task.number);
    }
    bring_sources(from_.outputs());
    for (const Assignment& a : from_.updates()) bring_sources(Values{a.next});
    rewriter_.finish();
    if (report_ != nullptr) report_edges();
  }

 private:
  // ---- rewriting

  void emit_unit(uint32_t unit) {
    if (rows_.is_moved(unit)) return;
    if (const FusedNode* with_rows = rows_.fused(unit)) return emit_fused(*with_rows);
    if (units_.nodes(unit).size() == 1) return emit_node(units_.first(unit));
    FusedNode& fused = clustered_.fused(unit);
    Values stored;
    for (const Value& v : fused.outputs) {
      if (!groups_.is_loaded(v)) stored.push_back(v);
    }
    if (stored.size() != fused.outputs.size()) {
      fused = bodies_.fuse(from_, {.epilogue = units_.nodes(unit), .outputs = std::move(stored)});
    }
    emit_fused(fused);
  }

  void emit_fused(const FusedNode& fused) {
    bring_sources(fused.inputs);
    const Node& node = bodies_.add(to_, fused, rewriter_(fused.inputs));
    to_.relabel(node, fused.label);
    for (uint32_t i = 0; i < fused.outputs.size(); ++i) {
      rewriter_.map(fused.outputs[i], node.output(i));
    }
  }

  void emit_node(const Node& node) {
    bring_sources(node.inputs());
    if (node.bodies().empty() || is_fused_node(node)) {
      rewriter_.clone(node);
      return;
    }
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) {
      FuseReport inside;
      bodies.push_back(fuse(*body, supports_, report_ == nullptr ? nullptr : &inside));
      const std::string where =
          described(node) + " body " + std::to_string(bodies.size() - 1) + ": ";
      for (const std::string& line : inside.lines) report_->lines.push_back(where + line);
    }
    rewriter_.clone(node, std::move(bodies));
  }

  // Constants are copied where something outside the bodies reads them.
  void bring_sources(std::span<const Value> values) {
    for (const Value& v : values) {
      if (!rewriter_.mapped(v)) rewriter_.clone(v.node());
    }
  }

  // ---- report

  bool together(const Node& a, const Node& b) const {
    const uint32_t from = units_.of(a), to = units_.of(b);
    const uint32_t group = groups_.group_of(from);
    return from == to || groups_.is_loaded(from) || rows_.together(from, to) ||
           clustered_.clusters().together(a.id(), b.id()) ||
           (group != FuseUnits::kNone && group == groups_.group_of(to));
  }

  // Edges at anchors and rows are told when those choose.
  void report_edges() const {
    const Clusters& clusters = clustered_.clusters();
    for (const Node& node : from_.nodes()) {
      if (units_.of(node) == FuseUnits::kNone || is_anchor(node)) continue;
      for (const Value& v : node.inputs()) {
        const Node& producer = v.node();
        if (producer.has(kSource) || is_anchor(producer) || together(producer, node)) continue;
        const bool concerns = clusters.cluster_of[node.id()] != Clusters::kNone ||
                              clusters.cluster_of[producer.id()] != Clusters::kNone;
        if (!concerns || (node.has(kRowWise) && v == node.input(0))) continue;
        report_->add(
            described(producer) + " -> " + described(node) + ": " + why_apart(producer, node),
            line_of(node));
      }
    }
  }

  std::string why_apart(const Node& producer, const Node& consumer) const {
    const std::string why = rows_.why_apart(units_.of(producer), units_.of(consumer));
    if (!why.empty()) return "the backend declines: " + why;
    const Clusters& clusters = clustered_.clusters();
    for (const Node* node : {&producer, &consumer}) {
      if (clusters.cluster_of[node->id()] != Clusters::kNone) continue;
      if (is_on_host(*node)) return node->op_name() + " runs on the host";
      return node->op_name() +
             (is_elementwise(*node) ? " has no known shape" : " is not element-wise");
    }
    const Shape& from = producer.type().shape;
    const Shape& to = consumer.type().shape;
    if (from != to) return "the shapes " + to_string(from) + " and " + to_string(to) + " differ";
    const std::string& reason = clusters.declined[producer.id()];
    return reason.empty() ? "it joined other users, which come first" : reason;
  }

  const Graph& from_;
  Graph& to_;
  const SupportsFunction& supports_;
  FuseReport* report_;
  Rewriter rewriter_;
  SharedBodies bodies_;
  ClusteredUnits clustered_;
  const FuseUnits& units_;
  AnchorGroups groups_;
  MovedRows rows_;
};

}  // namespace

std::unique_ptr<Graph> fuse(const Graph& graph, const SupportsFunction& supports,
                            FuseReport* report) {
  auto result = std::make_unique<Graph>(graph.ops());
  Fuser(graph, *result, supports, report).run();
  return result;
}

}  // namespace keel
