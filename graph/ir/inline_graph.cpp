#include "keel/graph/ir/inline_graph.h"

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"

namespace keel {
namespace {

constexpr const char* kFoldKey = "fold_key";
// kRecomputeAttribute of autodiff/recompute.h, which is made of ir and cannot be included here.
constexpr const char* kRecompute = "recompute";

NodeLabelPtr without_name(NodeLabel label) {
  label.name.clear();
  return std::make_shared<const NodeLabel>(std::move(label));
}

// One call: copies nodes of `from`, and of the bodies in it, for the root graph `to`.
class Inlining {
 public:
  Inlining(Graph& to, const Graph& from, CallSite site)
      : to_(to), from_(from), site_(site), size_before_(to.size()), rewriter_(from, to) {
    if (&to == &from) refuse("from", "another graph", "the same one");
    for (const Graph* graph : {static_cast<const Graph*>(&to), &from})
      if (graph->parent() != nullptr) refuse("graph", "a root graph", "a body of a control op");
  }

  void give(const Value& input, const Value& value) {
    from_.require_own(input, "inline_graph", "inputs", site_, "the graph that is inlined");
    to_.require_own(value, "inline_graph", "inputs", site_);
    const Type& wanted = input.type();
    if (!input.node().is(OpRole::kInput)) refuse("inputs", "an input", described(input));
    if (value.dtype() != wanted.dtype || !matches(wanted.shape, value.shape()))
      refuse("input '" + name_of(input.node()) + "'", to_string(wanted), to_string(value.type()));
    rewriter_.map(input, value);
  }

  Values run(const Values& outputs) {
    for (const Value& output : outputs)
      from_.require_own(output, "inline_graph", "outputs", site_, "the graph that is inlined");
    const std::vector<bool> needed = needed_by(outputs);
    require_copyable(needed);
    for (const Node& node : from_.nodes())
      if (needed[node.id()]) copy_root(node);
    for (const AttachedUpdate& a : from_.attached_updates()) {
      if (!needed[a.output.node_id()]) continue;
      const Value output = rewriter_(a.output), state = rewriter_(a.state),
                  next = rewriter_(a.next);
      if (a.observed.valid())
        to_.attach_update(output, state, next, rewriter_(a.observed), site_);
      else
        to_.attach_update(output, state, next, site_);
    }
    return rewriter_(outputs);
  }

 private:
  std::vector<bool> needed_by(const Values& outputs) const {
    std::vector<bool> needed(from_.size(), false);
    Values open = outputs;
    const auto close = [&] {
      while (!open.empty()) {
        const Value value = open.back();
        open.pop_back();
        if (needed[value.node_id()]) continue;
        needed[value.node_id()] = true;
        for (const Value& input : value.node().data_inputs()) open.push_back(input);
      }
    };
    close();
    // Updates that are attached to needed values may need others that something is attached to.
    for (size_t before = 0, now = 1; before != now;) {
      before = now;
      now = 1;
      for (const AttachedUpdate& a : from_.attached_updates()) {
        if (!needed[a.output.node_id()]) continue;
        ++now;
        open.insert(open.end(), {a.state, a.next});
        if (a.observed.valid()) open.push_back(a.observed);
        close();
      }
    }
    return needed;
  }

  // Before anything is added to `to`.
  void require_copyable(const std::vector<bool>& needed) const {
    for (const Node& node : from_.nodes()) {
      if (!needed[node.id()]) continue;
      if (node.is(OpRole::kInput) && !rewriter_.mapped(node.output()))
        refuse("input '" + name_of(node) + "'", to_string(node.type()), "nothing");
      if (!node.is(OpRole::kState)) continue;
      const Value own = to_.find_state(name_of(node));
      if (!own.valid() || own.node().attributes() == node.attributes()) continue;
      refuse("state '" + name_of(node) + "'",
             to_string(node.type()) + " with the same initial value and use",
             "another state of that name, " + to_string(own.type()));
    }
  }

  void copy_root(const Node& node) {
    if (node.is(OpRole::kInput)) return;
    if (node.is(OpRole::kState)) {
      if (const Value own = to_.find_state(name_of(node)); own.valid()) {
        rewriter_.map(node.output(), own);
        return;
      }
    }
    const Node& copied = copy(node, rewriter_, to_);
    NodeLabelPtr label = label_of_copy(node);
    if (label != nullptr && !label->name.empty()) {
      const std::string name =
          label->scope.empty() ? label->name : label->scope + "/" + label->name;
      if (to_.find_named(name).valid()) label = without_name(*label);
    }
    to_.relabel(copied, std::move(label));
  }

  // Nodes with the same mark are computed again as one block. So the marks of each call get a
  // prefix that tells them from those of other calls and of `to` itself: how large `to` was before,
  // which no two calls that add nodes have in common.
  NodeLabelPtr label_of_copy(const Node& node) const {
    NodeLabelPtr label = label_within(to_.label(), node.shared_label());
    if (scoped_attribute(node, kRecompute) == nullptr) return label;
    NodeLabel own = *label;
    for (auto& [key, value] : own.attributes)
      if (key == kRecompute) value = std::to_string(size_before_) + "/" + value;
    return std::make_shared<const NodeLabel>(std::move(own));
  }

  const Node& copy(const Node& node, Rewriter& rewriter, Graph& to) {
    if (node.is(OpRole::kToken)) return rewriter.clone(node);
    Values inputs = rewriter(node.data_inputs());
    if (is_key_base(node)) key_bases_.insert(node.output());
    if (is_numbered_key(node))
      inputs[1] = to.constant(Tensor::scalar<int64_t>(to_.next_salt()), node.site());
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) {
      note_key_bases(node, *body);
      bodies.push_back(copy_body(*body, body_input_types(node, inputs)));
    }
    const Node& copied =
        to.add(node.op(), std::move(inputs), node.attributes(), node.site(), std::move(bodies));
    const size_t results = node.data_types().size();
    for (size_t i = 0; i < results; ++i) rewriter.map(node.output(i), copied.output(i));
    if (node.ordered()) rewriter.map(node.output(results), to.token());
    return copied;
  }

  static bool folds_a_key(const Node& node) { return node.op_name() == kFoldKey; }

  // Returns whether the node folds the seed and the step, or in a body what it has of these and the
  // iteration of its loop, as random_key does. A constant that is folded into the result is the
  // number of a random op; all others are a user's own.
  bool is_key_base(const Node& node) const {
    if (!folds_a_key(node)) return false;
    const Value key = node.input(0), data = node.input(1);
    const auto is_state = [](const Value& v, const char* name) {
      return v.node().is(OpRole::kState) && name_of(v.node()) == name;
    };
    if (is_state(key, kSeedState)) return is_state(data, kStepState);
    return key_bases_.contains(key) && data.node().is(OpRole::kInput);
  }

  bool is_numbered_key(const Node& node) const {
    return folds_a_key(node) && key_bases_.contains(node.input(0)) &&
           node.input(1).node().is(OpRole::kConstant);
  }

  // Bodies capture what random_key folds numbers into. A loop's variables, which change, come
  // before what its bodies capture.
  void note_key_bases(const Node& node, const Graph& body) {
    const size_t predicates = node.is(OpRole::kCond) ? 1 : 0;
    const size_t variables = node.is(OpRole::kWhile) ? node.data_types().size() : 0;
    const auto outer = node.data_inputs();
    for (size_t i = variables; i < body.inputs().size() && predicates + i < outer.size(); ++i)
      if (key_bases_.contains(outer[predicates + i])) key_bases_.insert(body.inputs()[i]);
  }

  // It gets no parent: all that it uses of the graph around it are inputs already. What goes in may
  // be of a more precise shape than before.
  std::shared_ptr<Graph> copy_body(const Graph& body, const std::vector<Type>& types) {
    auto result = std::make_shared<Graph>(body.ops());
    Rewriter rewriter(body, *result);
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      const Node& node = body.inputs()[i].node();
      rewriter.map(node.output(),
                   result->input(name_of(node), types.at(i).dtype, types.at(i).shape, node.site()));
    }
    for (const Node& node : body.nodes()) {
      if (node.is(OpRole::kInput)) continue;
      const Node& copied = copy(node, rewriter, *result);
      result->relabel(copied, label_of_copy(node));
    }
    rewriter.finish();
    return result;
  }

  [[noreturn]] void refuse(const std::string& argument, const std::string& expected,
                           const std::string& got) const {
    throw Error({.op = "inline_graph",
                 .argument = argument,
                 .expected = expected,
                 .got = got,
                 .site = site_});
  }

  Graph& to_;
  const Graph& from_;
  CallSite site_;
  const size_t size_before_;
  Rewriter rewriter_;
  std::unordered_set<Value, ValueHash> key_bases_;  // of `from_` and its bodies
};

}  // namespace

Values inline_graph(Graph& to, const Graph& from, const Values& outputs,
                    const std::vector<std::pair<Value, Value>>& inputs, CallSite site) {
  Inlining inlining(to, from, site);
  for (const auto& entry : inputs) inlining.give(entry.first, entry.second);
  return inlining.run(outputs);
}

}  // namespace keel
