#include <optional>
#include <string>
#include <utility>

#include "keel/core/base/printable.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/passes/passes.h"

namespace keel {
namespace {

// Deeper chains of decompositions than this mean that an op decomposes into itself.
constexpr int kMostRounds = 32;

// The attribute of the parts of a composite that keeps its dtypes, with the composite's op as value
// (kKeptCompositeAttribute of graph/precision/form_choice.h, which is built on passes).
constexpr const char* kKeptCompositeKey = "kept_composite";

std::string describe(const Node& node, const std::string& reason) {
  std::string text =
      display_name(node) + " " + (node.data_types().empty() ? "" : to_string(node.type()));
  if (!reason.empty()) text += ": " + reason;
  return text + " (" + to_string(node.site()) + ")";
}

class Decomposer {
 public:
  Decomposer(const SupportsFunction& supports, PlacementPolicy policy, const KeepsFunction& keeps)
      : supports_(supports), policy_(policy), keeps_(keeps) {}

  template <class Pointer>
  Pointer run(const Graph& graph) {
    Pointer result = round<Pointer>(graph);
    for (int i = 0; changed_ && i < kMostRounds; ++i) result = round<Pointer>(*result);
    if (!unsupported_.empty()) fail();
    if (policy_ == PlacementPolicy::kFull) return result;
    auto moved = Pointer(new Graph(graph.ops()));
    move_regions(*result, *moved, "");
    if (!unsupported_.empty()) fail();
    return moved;
  }

 private:
  // Copies a graph with every loop and branch that has a part on the host moved there whole: a turn
  // would otherwise wait for copies both ways. `rule` says why the graph is on the host, as a body
  // of one; empty where it is not.
  void move_regions(const Graph& graph, Graph& to, const std::string& rule) {
    Rewriter rewriter(graph, to);
    rewriter.clone_inputs();
    for (const Node& node : graph.nodes()) {
      if (node.is(OpRole::kInput)) continue;
      if (!node.bodies().empty() && !is_fused_node(node)) {
        move_region(node, rewriter, rule);
      } else if (!rule.empty() && !is_on_host(node) && runs_on_host(node)) {
        place_on_host(node, rule, "", rewriter, to);
      } else {
        rewriter.clone(node);
      }
    }
    rewriter.finish();
  }

  void move_region(const Node& node, Rewriter& rewriter, std::string rule) {
    const Node* placed = placed_by_policy_in(node);
    if (rule.empty() && placed != nullptr) {
      rule = mixed_rule(node.op_name() + " moves whole with " + placed->op_name() +
                        ", which the device lacks");
    }
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) {
      bodies.push_back(std::make_shared<Graph>(body->ops()));
      move_regions(*body, *bodies.back(), rule);
    }
    rewriter.clone(node, std::move(bodies));
  }

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
    if (!support.supported && node.op().decompose != nullptr && !is_better_placed_whole(node)) {
      replace(node, rewriter, to);
      return;
    }
    if (!node.bodies().empty() && !is_fused_node(node)) {
      rewrite_bodies(node, rewriter);
    } else if (support.supported) {
      const Node& copy = rewriter.clone(node);
      if (reads_other_ops(copy, node)) look_again_at(copy);
    } else {
      place(node, support, rewriter, to);
    }
  }

  // Under the policy `mixed` a composite whose parts the device lacks too goes to the host as one
  // task, where that has it as one.
  bool is_better_placed_whole(const Node& node) const {
    return policy_ == PlacementPolicy::kMixed && node.bodies().empty() &&
           !runs_decomposed(node, 0) && runs_on_host(node);
  }

  static Values inputs_like(const Node& node, Graph& scratch) {
    Values inputs;
    for (const Value& v : node.data_inputs()) {
      inputs.push_back(
          scratch.input("x" + std::to_string(inputs.size()), v.dtype(), v.shape(), node.site()));
    }
    return inputs;
  }

  bool runs_on_host(const Node& node) const {
    if (node.has(kSource | kView | kControl | kEffect)) return false;
    Graph scratch(*node.op().table);
    const Node& copy =
        scratch.add(node.op(), inputs_like(node, scratch), node.attributes(), node.site());
    scratch.relabel(copy, placed_on_host(node, mixed_rule("")));
    return is_on_host(copy) && supports_(copy).supported;
  }

  bool runs_decomposed(const Node& node, int depth) const {
    if (depth == kMostRounds) return false;
    Graph scratch(*node.op().table);
    const Values inputs = inputs_like(node, scratch);
    const Values outputs = node.op().decompose(
        BuildContext{node.op(), node.attributes(), inputs, {}, {}, {}, scratch, node.site()});
    for (const Node& part : scratch.nodes()) {
      if (part.has(kSource) || supports_(part).supported) continue;
      if (part.op().decompose == nullptr || !part.bodies().empty()) return false;
      if (!runs_decomposed(part, depth + 1)) return false;
    }
    return true;
  }

  // A node with bodies is judged by what became of them. What they lack is listed node by node, so
  // the node around it is not listed for it as well.
  void rewrite_bodies(const Node& node, Rewriter& rewriter) {
    const size_t listed = unsupported_.size();
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) {
      bodies.push_back(std::make_shared<Graph>(body->ops()));
      rewrite(*body, *bodies.back());
    }
    const Node& made = rewriter.clone(node, std::move(bodies));
    if (unsupported_.size() > listed) return;
    const Support support = supports_(made);
    if (!support.supported) unsupported_.push_back(describe(node, support.reason));
  }

  // Copies a node that the device lacks: to the host, where the policy says so.
  void place(const Node& node, const Support& support, Rewriter& rewriter, Graph& to) {
    if (policy_ == PlacementPolicy::kFull) {
      unsupported_.push_back(describe(node, support.reason));
      rewriter.clone(node);
      return;
    }
    place_on_host(node, mixed_rule(printable(support.reason)), support.reason, rewriter, to);
  }

  // Copies a node to the host and lists it where that does not run it either.
  void place_on_host(const Node& node, const std::string& rule, const std::string& reason,
                     Rewriter& rewriter, Graph& to) {
    const Node& placed = rewriter.clone(node);
    to.relabel(placed, placed_on_host(node, rule));
    const Support there =
        is_on_host(placed) ? supports_(placed) : Support{false, "it does not run on the host"};
    if (!there.supported)
      unsupported_.push_back(describe(node, reason + "; on the host: " + there.reason));
  }

  // Another round is needed where a decomposition has left something that this one would not take
  // as it is.
  void look_again_at(const Node& made) {
    if (made.has(kSource)) return;
    changed_ = changed_ || !made.bodies().empty() || !supports_(made).supported;
  }

  // The answer for the node need not hold for its copy then.
  static bool reads_other_ops(const Node& copy, const Node& node) {
    for (uint32_t i = 0; i < copy.data_inputs().size(); ++i) {
      if (&copy.input(i).node().op() != &node.input(i).node().op()) return true;
    }
    return false;
  }

  void replace(const Node& node, Rewriter& rewriter, Graph& to) {
    const size_t before = to.size();
    const LabelScope label(to, node);
    std::optional<AttributeScope> marked;
    if (keeps_ && keeps_(node)) marked.emplace(to, kKeptCompositeKey, node.op_name());
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
    for (size_t id = before; id < to.size(); ++id)
      look_again_at(to.node(static_cast<uint32_t>(id)));
  }

  [[noreturn]] void fail() const {
    std::string list;
    for (const std::string& line : unsupported_) list += (list.empty() ? "" : "; ") + line;
    throw Error({.op = "compile",
                 .message = "the backend cannot run " + std::to_string(unsupported_.size()) +
                            (unsupported_.size() == 1 ? " node: " : " nodes: ") + list,
                 .fix = std::string("use other dtypes or ops, or another backend (`keel info` "
                                    "lists them)") +
                        (policy_ == PlacementPolicy::kFull
                             ? ", or the placement policy mixed, which computes them on the host"
                             : "")});
  }

  const SupportsFunction& supports_;
  const PlacementPolicy policy_;
  const KeepsFunction& keeps_;
  bool changed_ = false;
  std::vector<std::string> unsupported_;
};

}  // namespace

std::unique_ptr<Graph> decompose(const Graph& graph, const SupportsFunction& supports,
                                 PlacementPolicy policy, const KeepsFunction& keeps) {
  return Decomposer(supports, policy, keeps).run<std::unique_ptr<Graph>>(graph);
}

}  // namespace keel
