#include <algorithm>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "keel/graph/passes/cloner.h"
#include "keel/graph/passes/fuse_clusters.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/passes/readers.h"
#include "keel/graph/passes/shared_bodies.h"

namespace keel {
namespace {

// Copies a graph with each cluster as one node.
class Fuser {
 public:
  Fuser(const Graph& from, Graph& to, const SupportsFunction& supports, FuseReport* report)
      : from_(from),
        to_(to),
        supports_(supports),
        report_(report),
        fused_(from.ops().at("fused")),
        cloner_(from, to),
        answers_(from, fused_, supports),
        live_(live_nodes(from)),
        readers_(from, live_),
        clusters_(form_clusters(from, live_, readers_)) {}

  void run() {
    for (const Value& v : from_.outputs()) fetched_.insert(v);
    for (const Assignment& a : from_.updates()) fetched_.insert(a.next);
    cloner_.clone_inputs();
    for (const uint32_t last : ordered_groups()) emit_group(last);
    bring_constants(from_.outputs());
    for (const Assignment& a : from_.updates()) bring_constants(Values{a.next});
    cloner_.finish();
    report_edges();
  }

 private:
  // ---- order

  // A group is a cluster or a node by itself, named by its last node.
  uint32_t group_of(uint32_t id) const {
    const uint32_t cluster = clusters_.cluster_of[id];
    return cluster == Clusters::kNone ? id : clusters_.members[cluster].back();
  }

  // Every group behind those it reads, otherwise in the order of their last nodes: close to the
  // order of the graph, so that values live about as long as they did.
  std::vector<uint32_t> ordered_groups() const {
    std::vector<size_t> unread(from_.size(), 0);
    for (uint32_t id = 0; id < from_.size(); ++id) {
      for (const uint32_t reader : readers_.of(id)) {
        if (group_of(reader) != group_of(id)) ++unread[group_of(reader)];
      }
    }
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
    for (uint32_t id = 0; id < from_.size(); ++id) {
      if (live_[id] && group_of(id) == id && unread[id] == 0) ready.push(id);
    }
    std::vector<uint32_t> order;
    const auto done = [&](uint32_t id) {
      for (const uint32_t reader : readers_.of(id)) {
        const uint32_t group = group_of(reader);
        if (group != order.back() && --unread[group] == 0) ready.push(group);
      }
    };
    while (!ready.empty()) {
      const uint32_t last = ready.top();
      ready.pop();
      order.push_back(last);
      const uint32_t cluster = clusters_.cluster_of[last];
      if (cluster == Clusters::kNone) {
        done(last);
      } else {
        for (const uint32_t id : clusters_.members[cluster]) done(id);
      }
    }
    return order;
  }

  // Whether something beside the value's own cluster needs it.
  bool is_read_outside(const Value& v) const {
    const auto readers = readers_.of(v.node_id());
    return fetched_.contains(v) || std::any_of(readers.begin(), readers.end(), [&](uint32_t id) {
             const auto& inputs = from_.node(id).inputs();
             return !clusters_.together(v.node_id(), id) &&
                    std::find(inputs.begin(), inputs.end(), v) != inputs.end();
           });
  }

  // ---- rewriting

  void emit_group(uint32_t last) {
    const uint32_t cluster = clusters_.cluster_of[last];
    if (cluster == Clusters::kNone) {
      emit_node(from_.node(last));
    } else if (clusters_.members[cluster].size() == 1 || !emit_fused(clusters_.members[cluster])) {
      for (const uint32_t id : clusters_.members[cluster]) emit_node(from_.node(id));
    }
  }

  void emit_node(const Node& node) {
    if (node.op_name() == "input" || node.op_name() == "constant") return;
    bring_constants(node.inputs());
    if (node.bodies().empty() || &node.op() == &fused_) {
      cloner_.clone(node);
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
    cloner_.clone(node, std::move(bodies));
  }

  // Constants are copied when something outside the clusters reads them.
  void bring_constants(std::span<const Value> values) {
    for (const Value& v : values) {
      if (!cloner_.mapped(v)) cloner_.clone(v.node());
    }
  }

  struct Body {
    std::shared_ptr<Graph> graph;
    Values inputs;   // of from_, paired with the body's inputs
    Values outputs;  // of from_, paired with the body's outputs
  };

  bool emit_fused(const std::vector<uint32_t>& members) {
    const Body body = make_body(members);
    const CallSite site = from_.node(members.back()).site();
    const std::shared_ptr<Graph> shared = bodies_.of(body.graph);
    const Support& support = answers_.to(body.inputs, {shared}, site);
    if (!support.supported) {
      if (report_ != nullptr) {
        report_->add(described(from_.node(members.front())) + " to " +
                         described(from_.node(members.back())) + ", " +
                         std::to_string(members.size()) +
                         " nodes: the backend declines: " + support.reason,
                     line_of(from_.node(members.back())));
      }
      return false;
    }
    bring_constants(body.inputs);
    const Node& node = to_.add(fused_, cloner_(body.inputs), {}, site, {shared});
    for (size_t i = 0; i < body.outputs.size(); ++i) cloner_.map(body.outputs[i], node.output(i));
    return true;
  }

  Body make_body(const std::vector<uint32_t>& members) const {
    Body body{std::make_shared<Graph>(from_.ops()), {}, {}};
    std::unordered_map<Value, Value, ValueHash> map;
    Values outputs;
    for (const uint32_t id : members) {
      const Node& node = from_.node(id);
      Values inputs;
      for (const Value& v : node.inputs()) {
        Value& inner = map[v];
        if (!inner.valid()) inner = bring_in(v, body);
        inputs.push_back(inner);
      }
      const Node& copy = body.graph->add(node.op(), inputs, node.attributes(), node.site());
      for (size_t i = 0; i < node.types().size(); ++i) {
        const Value v = node.output(i);
        map[v] = copy.output(i);
        if (!is_read_outside(v)) continue;
        body.outputs.push_back(v);
        outputs.push_back(copy.output(i));
      }
    }
    body.graph->set_outputs(outputs);
    return body;
  }

  static Value bring_in(const Value& v, Body& body) {
    if (is_scalar_constant(v)) {
      return body.graph->constant(v.node().as<ConstantAttributes>().value, v.node().site());
    }
    const std::string name = "v" + std::to_string(body.inputs.size());
    body.inputs.push_back(v);
    return body.graph->input(name, v.dtype(), v.shape(), v.node().site());
  }

  // ---- report

  void report_edges() const {
    if (report_ == nullptr) return;
    for (const Node& node : from_.nodes()) {
      if (!live_[node.id()]) continue;
      for (const Value& v : node.inputs()) {
        const Node& producer = v.node();
        const bool concerns = clusters_.cluster_of[node.id()] != Clusters::kNone ||
                              clusters_.cluster_of[producer.id()] != Clusters::kNone;
        // Of products, the rows that they may make and reductions the passes report that fuse
        // those.
        const bool others = producer.has(kProduct) || node.has(kProduct) ||
                            is_reduction(producer) || is_reduction(node) ||
                            (node.has(kRowWise) && v == node.input(0));
        if (!concerns || producer.has(kSource) || others) continue;
        if (clusters_.together(producer.id(), node.id())) continue;
        report_->add(described(producer) + " -> " + described(node) + ": " +
                         why_not_fused(clusters_, producer, node),
                     line_of(node));
      }
    }
  }

  const Graph& from_;
  Graph& to_;
  const SupportsFunction& supports_;
  FuseReport* report_;
  const OpDef& fused_;
  Cloner cloner_;
  SharedBodies bodies_;
  BackendAnswers answers_;
  std::vector<bool> live_;
  Readers readers_;
  Clusters clusters_;
  std::unordered_set<Value, ValueHash> fetched_;
};

}  // namespace

std::unique_ptr<Graph> fuse(const Graph& graph, const SupportsFunction& supports,
                            FuseReport* report) {
  auto result = std::make_unique<Graph>(graph.ops());
  Fuser(graph, *result, supports, report).run();
  return result;
}

}  // namespace keel
