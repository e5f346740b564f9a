#include "keel/graph/ir/verify.h"

#include <algorithm>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/graph/autodiff/control_gradient.h"
#include "keel/graph/control/control_flow.h"

namespace keel {

class Verifier {
 public:
  void verify_all(const Graph& graph) {
    if (std::find(open_.begin(), open_.end(), &graph) != open_.end()) {
      throw Error({.op = "verify", .message = "a body contains itself"});
    }
    if (!done_.insert(&graph).second) return;
    open_.push_back(&graph);
    for (uint32_t id = 0; id < graph.nodes_.size(); ++id) verify_node(graph, graph.nodes_[id], id);
    verify_chain(graph);
    verify_signature(graph);
    verify_captures(graph);
    open_.pop_back();
  }

  static void verify_signature(const Graph& graph) {
    verify_names(graph, graph.inputs_, "input");
    verify_names(graph, graph.states_, "state");
    if (graph.parent_ != nullptr && !graph.states_.empty()) {
      fail(graph.states_[0].node(), "state", "the root graph", "a body of a control op");
    }
    for (const Value& v : graph.outputs_) require_own(graph, v, "output");
    std::unordered_set<Value, ValueHash> assigned;
    for (const Assignment& a : graph.updates_) {
      verify_update(graph, a.state, a.next);
      if (!assigned.insert(a.state).second) {
        fail(a.state.node(), "update", "one next value of a state", "two");
      }
    }
    for (const AttachedUpdate& a : graph.attached_) {
      require_own(graph, a.output, "attached update");
      verify_update(graph, a.state, a.next);
      if (a.observed.valid()) require_own(graph, a.observed, "attached update");
    }
  }

 private:
  [[noreturn]] static void fail(const Node& node, const std::string& what,
                                const std::string& expected, const std::string& got) {
    throw Error({.op = "verify",
                 .argument = "%" + std::to_string(node.id_) + " (" +
                             (node.op_ == nullptr ? "no op" : node.op_->name) + "): " + what,
                 .expected = expected,
                 .got = got,
                 .site = node.site_});
  }

  static bool is_own(const Graph& graph, const Value& v) {
    return v.valid() && &v.graph() == &graph && v.node_id() < graph.nodes_.size() &&
           v.output() < graph.nodes_[v.node_id()].types_.size();
  }

  static void require_own(const Graph& graph, const Value& v, const std::string& what) {
    if (is_own(graph, v)) return;
    throw Error({.op = "verify",
                 .argument = what,
                 .expected = "a value of the graph",
                 .got = !v.valid() ? "an empty Value"
                        : &v.graph() != &graph
                            ? "a value of another graph"
                            : "%" + std::to_string(v.node_id()) + "." + std::to_string(v.output()) +
                                  ", which does not exist"});
  }

  void verify_node(const Graph& graph, const Node& node, uint32_t id) {
    if (node.op_ == nullptr) fail(node, "op", "an op", "none");
    if (node.graph_ != &graph || node.id_ != id) {
      fail(node, "place", "node " + std::to_string(id) + " of its graph", "another place");
    }
    for (size_t i = 0; i < node.inputs_.size(); ++i) {
      const Value& v = node.inputs_[i];
      const std::string what = "input " + std::to_string(i);
      if (!is_own(graph, v)) {
        fail(node, what, "a value of the same graph",
             !v.valid()             ? "an empty Value"
             : &v.graph() == &graph ? "a value that does not exist"
                                    : "a value of another graph");
      }
      if (v.node_id() >= id) {
        fail(node, what, "a value of an earlier node", "%" + std::to_string(v.node_id()));
      }
    }
    verify_op(graph, node);
  }

  void verify_op(const Graph& graph, const Node& node) {
    graph.check_arity(*node.op_, node.data_inputs().size(), node.bodies_.size(), node.site_);
    if (!same_struct(node.attributes_.schema(), node.op_->attributes)) {
      fail(node, "attributes", "those of " + node.op_->name, "those of another op");
    }
    if (is_checkpointed_forward(node)) {
      fail(node, "forward_of", "none, which only a graph whose gradients are being expanded has",
           std::to_string(node.as<WhileAttributes>().forward_of));
    }
    for (const auto& body : node.bodies_) {
      if (body == nullptr) fail(node, "body", "a graph", "none");
      verify_all(*body);
      verify_pairing(graph, node, *body);
    }
    std::vector<Type> inputs;
    for (const Value& v : node.data_inputs())
      inputs.push_back(graph.nodes_[v.node_id()].types_[v.output()]);
    std::vector<Type> types;
    try {
      types = node.op_->infer(
          InferContext(*node.op_, inputs, node.attributes_, node.bodies_, node.site_));
    } catch (const Error& error) {
      throw error.with_site(node.site_).with_context("verify: %" + std::to_string(node.id_));
    }
    if (node.ordered()) types.push_back({DType::kToken, {}});
    if (node.types_ != types) fail(node, "types", joined(types), joined(node.types_));
  }

  // Checks that effects, and control ops with effects in their bodies, are one chain of tokens.
  static void verify_chain(const Graph& graph) {
    Value last;
    for (const Node& node : graph.nodes_) {
      const auto& bodies = node.bodies_;
      const bool effect =
          node.has(kEffect) ||
          std::any_of(bodies.begin(), bodies.end(), [](auto& body) { return body->has_effects(); });
      if (node.ordered() != effect)
        fail(node, "token", effect ? "one, as an effect has" : "none", effect ? "none" : "one");
      if (effect && (node.inputs_.empty() || node.inputs_.back() != last))
        fail(node, "token", "the one behind the effect before it", "another one");
      if (effect || node.is(OpRole::kToken))
        last = node.output(static_cast<uint32_t>(node.types_.size()) - 1);
    }
    if (graph.token_ != last)
      throw Error({.op = "verify",
                   .argument = "token",
                   .expected = "the one behind the last effect",
                   .got = "another one"});
  }

  // Checks that what a body of `graph` captured is what the node passes for it.
  static void verify_pairing(const Graph& graph, const Node& node, const Graph& body) {
    if (body.parent_ != &graph) return;
    const NodeList<Value> inputs = node.data_inputs();
    for (const auto& [outer, inner] : body.captures_) {
      const auto it = std::find(body.inputs_.begin(), body.inputs_.end(), inner);
      const auto from_end = static_cast<size_t>(body.inputs_.end() - it);
      if (from_end == 0 || from_end > inputs.size() || inputs[inputs.size() - from_end] != outer) {
        fail(node, "body", "inputs that pass on what its body captures", "an orphan capture");
      }
    }
  }

  // The graph around is looked at only where it is being verified too: it may be gone otherwise.
  void verify_captures(const Graph& graph) const {
    const bool inside = std::find(open_.begin(), open_.end(), graph.parent_) != open_.end();
    for (const auto& [outer, inner] : graph.captures_) {
      const bool listed =
          std::find(graph.inputs_.begin(), graph.inputs_.end(), inner) != graph.inputs_.end();
      if (listed && (!inside || (is_own(*graph.parent_, outer) && outer.type() == inner.type()))) {
        continue;
      }
      throw Error({.op = "verify",
                   .argument = "capture",
                   .expected = "an input that stands for a value of the graph around it",
                   .got = "an orphan capture"});
    }
  }

  // The list holds all nodes of that op, each once, with names of their own.
  static void verify_names(const Graph& graph, const Values& list, const std::string& op) {
    std::unordered_set<std::string> names;
    for (const Value& v : list) {
      require_own(graph, v, op + " list");
      const Node& node = graph.nodes_[v.node_id()];
      if (node.op_->name != op) fail(node, op + " list", "an " + op, node.op_->name);
      if (!names.insert(name_of(node)).second) {
        fail(node, "name", "a name that no other " + op + " has", "'" + name_of(node) + "'");
      }
    }
    const auto is_op = [&](const Node& node) {
      return node.op_ != nullptr && node.op_->name == op;
    };
    const auto count = std::count_if(graph.nodes_.begin(), graph.nodes_.end(), is_op);
    if (static_cast<size_t>(count) != list.size()) {
      throw Error({.op = "verify",
                   .argument = op + " list",
                   .expected = std::to_string(count) + " values",
                   .got = std::to_string(list.size())});
    }
  }

  static void verify_update(const Graph& graph, const Value& state, const Value& next) {
    require_own(graph, state, "updated state");
    require_own(graph, next, "next value");
    const Node& node = graph.nodes_[state.node_id()];
    if (!node.is(OpRole::kState))
      fail(node, "update", "a state", "the result of " + node.op_->name);
    const Type& expected = state.type();
    const Type& got = next.type();
    if (got.dtype != expected.dtype || !matches(got.shape, expected.shape)) {
      fail(node, "update of " + name_of(node), to_string(expected), to_string(got));
    }
  }

  static std::string joined(std::span<const Type> types) {
    std::string text;
    for (const Type& t : types) text += (text.empty() ? "" : ", ") + to_string(t);
    return text.empty() ? "none" : text;
  }

  std::vector<const Graph*> open_;
  std::unordered_set<const Graph*> done_;
};

void verify(const Graph& graph) { Verifier().verify_all(graph); }

void verify_signature(const Graph& graph) { Verifier::verify_signature(graph); }

}  // namespace keel
