#include "keel/graph/ir/inline_graph.h"

#include <memory>

#include "keel/core/base/error.h"
#include "keel/graph/ir/rewriter.h"

namespace keel {
namespace {

// One call: copies nodes of `from`, and of the bodies in it, for the root graph `to`.
class Inlining {
 public:
  Inlining(Graph& to, const Graph& from, CallSite site)
      : to_(to), from_(from), site_(site), rewriter_(from, to) {}

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
    for (const Node& node : from_.nodes())
      if (needed[node.id()]) copy_root(node);
    return rewriter_(outputs);
  }

 private:
  std::vector<bool> needed_by(const Values& outputs) const {
    std::vector<bool> needed(from_.size(), false);
    for (const Value& output : outputs) needed[output.node_id()] = true;
    for (auto id = static_cast<uint32_t>(from_.size()); id-- > 0;) {
      if (!needed[id]) continue;
      for (const Value& input : from_.node(id).data_inputs()) needed[input.node_id()] = true;
    }
    return needed;
  }

  void copy_root(const Node& node) {
    if (node.is(OpRole::kInput)) {
      if (rewriter_.mapped(node.output())) return;
      refuse("input '" + name_of(node) + "'", to_string(node.type()), "nothing");
    }
    if (node.is(OpRole::kState)) {
      const Value own = to_.find_state(name_of(node));
      if (own.valid() && own.type() != node.type())
        refuse("state '" + name_of(node) + "'", to_string(node.type()), to_string(own.type()));
      if (own.valid()) {
        rewriter_.map(node.output(), own);
        return;
      }
    }
    copy(node, rewriter_, to_);
  }

  void copy(const Node& node, Rewriter& rewriter, Graph& to) {
    Values inputs = rewriter(node.data_inputs());
    if (node.has(kRandom)) {
      for (Value& input : inputs) {
        const bool salt = input.node().is(OpRole::kConstant) && input.type() == Type{i64, {}};
        if (salt) input = to.constant(Tensor::scalar<int64_t>(to_.next_salt()), node.site());
      }
    }
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) bodies.push_back(copy_body(*body));
    rewriter.clone(node, std::move(inputs), node.attributes(), std::move(bodies));
  }

  // It gets no parent: all that it uses of the graph around it are inputs already.
  std::shared_ptr<Graph> copy_body(const Graph& body) {
    auto result = std::make_shared<Graph>(body.ops());
    Rewriter rewriter(body, *result);
    rewriter.clone_inputs();
    for (const Node& node : body.nodes())
      if (!node.is(OpRole::kInput)) copy(node, rewriter, *result);
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
  Rewriter rewriter_;
};

}  // namespace

Values inline_graph(Graph& to, const Graph& from, const Values& outputs,
                    const std::vector<std::pair<Value, Value>>& inputs, CallSite site) {
  Inlining inlining(to, from, site);
  for (const auto& entry : inputs) inlining.give(entry.first, entry.second);
  return inlining.run(outputs);
}

}  // namespace keel
