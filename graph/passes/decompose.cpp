#include <string>
#include <utility>

#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/passes/passes.h"

namespace keel {
namespace {

// Deeper chains of decompositions than this mean that an op decomposes into itself.
constexpr int kMostRounds = 32;

std::string describe(const Node& node, const std::string& reason) {
  std::string text =
      display_name(node) + " " + (node.data_types().empty() ? "" : to_string(node.type()));
  if (!reason.empty()) text += ": " + reason;
  return text + " (" + to_string(node.site()) + ")";
}

class Decomposer {
 public:
  explicit Decomposer(const SupportsFunction& supports) : supports_(supports) {}

  template <class Pointer>
  Pointer run(const Graph& graph) {
    Pointer result = round<Pointer>(graph);
    for (int i = 0; changed_ && i < kMostRounds; ++i) result = round<Pointer>(*result);
    if (!unsupported_.empty()) fail();
    return result;
  }

 private:
  template <class Pointer>
  Pointer round(const Graph& graph) {
    changed_ = false;
    unsupported_.clear();
    auto result = Pointer(new Graph(graph.ops()));
    rewrite(graph, *result);
    return result;
  }

  void rewrite(const Graph& graph, Graph& to) {
    Rewriter rewriter(graph, to);
    const std::vector<bool> live = live_nodes(graph);
    for (const Value& input : graph.inputs()) rewriter.clone(input.node());
    for (const Node& node : graph.nodes()) {
      if (live[node.id()] && !node.is(OpRole::kInput)) rewrite_node(node, rewriter, to);
    }
    rewriter.finish();
  }

  void rewrite_node(const Node& node, Rewriter& rewriter, Graph& to) {
    if (node.has(kSource)) {
      rewriter.clone(node);
      return;
    }
    const Support support = supports_(node);
    if (!support.supported && node.op().decompose != nullptr) {
      replace(node, rewriter, to);
      return;
    }
    if (!support.supported) unsupported_.push_back(describe(node, support.reason));
    if (node.bodies().empty() || is_fused_node(node)) {
      rewriter.clone(node);
      return;
    }
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) {
      bodies.push_back(std::make_shared<Graph>(body->ops()));
      rewrite(*body, *bodies.back());
    }
    rewriter.clone(node, std::move(bodies));
  }

  void replace(const Node& node, Rewriter& rewriter, Graph& to) {
    changed_ = true;
    const LabelScope label(to, node);
    const Values inputs = rewriter(node.data_inputs());
    const Values outputs = node.op().decompose(
        BuildContext{node.op(), node.attributes(), inputs, {}, {}, node.bodies(), to, node.site()});
    for (size_t i = 0; i < node.data_types().size(); ++i) {
      if (i >= outputs.size() || outputs[i].type() != node.type(i)) {
        throw Error({.op = node.op_name(),
                     .argument = "decomposition",
                     .expected = to_string(node.type(i)),
                     .got = i < outputs.size() ? to_string(outputs[i].type()) : "nothing",
                     .site = node.site()});
      }
      rewriter.map(node.output(i), outputs[i]);
    }
    if (node.ordered()) rewriter.map(node.output(node.data_types().size()), to.token());
  }

  [[noreturn]] void fail() const {
    std::string list;
    for (const std::string& line : unsupported_) list += (list.empty() ? "" : "; ") + line;
    throw Error({.op = "compile",
                 .message = "the backend cannot run " + std::to_string(unsupported_.size()) +
                            (unsupported_.size() == 1 ? " node: " : " nodes: ") + list,
                 .fix = "use other dtypes or ops, or another backend (`keel info` lists them)"});
  }

  const SupportsFunction& supports_;
  bool changed_ = false;
  std::vector<std::string> unsupported_;
};

}  // namespace

std::unique_ptr<Graph> decompose(const Graph& graph, const SupportsFunction& supports) {
  return Decomposer(supports).run<std::unique_ptr<Graph>>(graph);
}

}  // namespace keel
