#include <unordered_map>
#include <utility>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/control/control_gradient.h"
#include "keel/graph/passes/cloner.h"

namespace keel {
namespace {

class Settler {
 public:
  Settler(const Graph& from, Graph& to) : from_(from), cloner_(from, to), live_(live_nodes(from)) {}

  void run() {
    for (const Node& node : from_.nodes()) {
      if (!live_[node.id()] || !is_unsettled_twin(node)) continue;
      twins_.emplace(static_cast<uint32_t>(node.as<WhileAttributes>().twin_of), &node);
    }
    cloner_.clone_inputs();
    for (const Node& node : from_.nodes()) {
      if (live_[node.id()]) visit(node);
    }
    cloner_.finish();
  }

 private:
  void visit(const Node& node) {
    if (!node.types().empty() && cloner_.mapped(node.output())) return;
    const auto twin = twins_.find(node.id());
    if (twin == twins_.end()) {
      copy(node);
      return;
    }
    // What the twin has beyond the loop it stands for is made of constants.
    for (const Value& v : twin->second->inputs()) bring(v);
    visit(*twin->second);
    for (size_t i = 0; i < node.types().size(); ++i) {
      cloner_.map(node.output(i), cloner_(twin->second->output(i)));
    }
  }

  void bring(Value v) {
    if (cloner_.mapped(v)) return;
    for (const Value& input : v.node().inputs()) bring(input);
    visit(v.node());
  }

  void copy(const Node& node) {
    if (node.bodies().empty()) {
      cloner_.clone(node);
      return;
    }
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) bodies.push_back(settle(*body));
    Attributes attributes = node.attributes();
    if (is_unsettled_twin(node)) {
      WhileAttributes own = node.as<WhileAttributes>();
      own.twin_of = -1;
      attributes = Attributes::of(own);
    }
    cloner_.clone(node, std::move(attributes), std::move(bodies));
  }

  const Graph& from_;
  Cloner cloner_;
  std::vector<bool> live_;
  std::unordered_map<uint32_t, const Node*> twins_;  // by the id of the loop they stand for
};

}  // namespace

bool is_unsettled_twin(const Node& node) {
  return node.is(OpRole::kWhile) && node.as<WhileAttributes>().twin_of != -1;
}

bool needs_settling(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.bodies()) {
      if (body->parent() != nullptr) return true;
    }
  }
  return false;
}

std::unique_ptr<Graph> settle(const Graph& graph) {
  auto result = std::make_unique<Graph>(graph.ops());
  Settler(graph, *result).run();
  return result;
}

}  // namespace keel
