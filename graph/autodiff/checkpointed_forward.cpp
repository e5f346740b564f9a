#include <unordered_map>
#include <utility>

#include "keel/graph/autodiff/control_gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/rewriter.h"

namespace keel {
namespace {

class CheckpointedForwards {
 public:
  CheckpointedForwards(const Graph& from, Graph& to)
      : from_(from), rewriter_(from, to), live_(live_nodes(from)) {}

  void run() {
    for (const Node& node : from_.nodes()) {
      if (!live_[node.id()] || !is_checkpointed_forward(node)) continue;
      checkpointed_.emplace(static_cast<uint32_t>(node.as<WhileAttributes>().forward_of), &node);
    }
    rewriter_.clone_inputs();
    for (const Node& node : from_.nodes()) {
      if (live_[node.id()]) visit(node);
    }
    rewriter_.finish();
  }

 private:
  void visit(const Node& node) {
    if (!node.types().empty() && rewriter_.mapped(node.output())) return;
    const auto checkpointed = checkpointed_.find(node.id());
    if (checkpointed == checkpointed_.end()) {
      copy(node);
      return;
    }
    // Its inputs beyond those of the loop it stands for are made of constants, so they can be
    // brought forward to here.
    for (const Value& v : checkpointed->second->inputs()) bring(v);
    visit(*checkpointed->second);
    for (size_t i = 0; i < node.types().size(); ++i) {
      rewriter_.map(node.output(i), rewriter_(checkpointed->second->output(i)));
    }
  }

  void bring(Value v) {
    if (rewriter_.mapped(v)) return;
    for (const Value& input : v.node().inputs()) bring(input);
    visit(v.node());
  }

  void copy(const Node& node) {
    if (node.bodies().empty()) {
      rewriter_.clone(node);
      return;
    }
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) bodies.push_back(place_checkpointed_forwards(*body));
    Attributes attributes = node.attributes();
    if (is_checkpointed_forward(node)) {
      WhileAttributes own = node.as<WhileAttributes>();
      own.forward_of = -1;
      attributes = Attributes::of(own);
    }
    rewriter_.clone(node, std::move(attributes), std::move(bodies));
  }

  const Graph& from_;
  Rewriter rewriter_;
  std::vector<bool> live_;
  std::unordered_map<uint32_t, const Node*> checkpointed_;  // by the id of the loop they stand for
};

}  // namespace

bool is_checkpointed_forward(const Node& node) {
  return node.is(OpRole::kWhile) && node.as<WhileAttributes>().forward_of != -1;
}

bool has_open_bodies(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.bodies()) {
      if (body->parent() != nullptr) return true;
    }
  }
  return false;
}

std::unique_ptr<Graph> place_checkpointed_forwards(const Graph& graph) {
  auto result = std::make_unique<Graph>(graph.ops());
  CheckpointedForwards(graph, *result).run();
  return result;
}

}  // namespace keel
