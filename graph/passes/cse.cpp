#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/passes/passes.h"

namespace keel {
namespace {

bool is_mergeable(const Node& node) {
  if (node.is(OpRole::kConstant)) return true;
  return !node.has(kSource | kControl | kEffect) && node.bodies().empty();
}

// Marks what loops begin with and numbers fill. A loop overwrites its variables, so of one value
// for several it would copy them, where each is filled as quickly as it is copied.
std::vector<bool> fills_of_loops(const Graph& graph) {
  std::vector<bool> fills(graph.size(), false);
  for (const Node& node : graph.nodes()) {
    if (!node.is(OpRole::kWhile)) continue;
    const size_t variables = node.bodies()[1]->outputs().size();
    for (size_t i = 0; i < variables; ++i) {
      const NodeList<Value> made_of = node.input(i).node().inputs();
      const bool filled =
          made_of.size() != 0 && std::all_of(made_of.begin(), made_of.end(), [](const Value& v) {
            return v.node().is(OpRole::kConstant) && v.shape().rank() == 0;
          });
      fills[node.input(i).node_id()] = filled && is_mergeable(node.input(i).node());
    }
  }
  return fills;
}

class Merger {
 public:
  Merger(Rewriter& rewriter, Graph& to) : rewriter_(rewriter), to_(to) {}

  void visit(const Node& node) {
    const Values inputs = rewriter_(node.inputs());
    const size_t key = hash(node, inputs);
    const auto [begin, end] = seen_.equal_range(key);
    for (auto it = begin; it != end; ++it) {
      const Node& other = *it->second;
      if (&other.op() != &node.op() || other.inputs() != inputs ||
          !(other.attributes() == node.attributes()) ||
          other.label().attributes != node.label().attributes) {
        continue;
      }
      if (other.label().name.empty() && !node.label().name.empty())
        to_.relabel(other, node.shared_label());
      for (size_t i = 0; i < node.types().size(); ++i) {
        rewriter_.map(node.output(i), other.output(i));
      }
      return;
    }
    seen_.emplace(key, &rewriter_.clone(node));
  }

 private:
  static size_t hash(const Node& node, const Values& inputs) {
    constexpr size_t kFactor = 0x9e3779b97f4a7c15ull;
    size_t h = std::hash<const OpDef*>()(&node.op()) * 31 + node.attributes().hash();
    for (const Value& v : inputs) h = h * kFactor + ValueHash()(v);
    // Copies of recomputed blocks differ in these alone.
    for (const auto& [key, text] : node.label().attributes)
      h = (h * kFactor + std::hash<std::string>()(key)) * kFactor + std::hash<std::string>()(text);
    return h;
  }

  Rewriter& rewriter_;
  Graph& to_;
  std::unordered_multimap<size_t, const Node*> seen_;  // nodes of the new graph
};

}  // namespace

std::unique_ptr<Graph> cse(const Graph& graph) {
  auto result = std::make_unique<Graph>(graph.ops());
  Rewriter rewriter(graph, *result);
  Merger merger(rewriter, *result);
  rewriter.clone_inputs();
  const std::vector<bool> live = live_nodes(graph), fills = fills_of_loops(graph);
  for (const Node& node : graph.nodes()) {
    if (!live[node.id()] || node.is(OpRole::kInput)) continue;
    if (is_mergeable(node) && !fills[node.id()]) {
      merger.visit(node);
      continue;
    }
    // The body of a fused node is as fuse made it: of its reductions each has a result, equal or
    // not.
    if (is_fused_node(node)) {
      rewriter.clone(node);
      continue;
    }
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) bodies.push_back(cse(*body));
    rewriter.clone(node, std::move(bodies));
  }
  rewriter.finish();
  return result;
}

}  // namespace keel
