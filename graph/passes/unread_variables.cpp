#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "keel/graph/autodiff/body_gradient.h"
#include "keel/graph/autodiff/flow.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/passes/passes.h"

namespace keel {
namespace {

ValueSet values_read(const Graph& graph, const std::vector<bool>& live) {
  ValueSet read(graph.outputs().begin(), graph.outputs().end());
  for (const Assignment& a : graph.updates()) read.insert(a.next);
  for (const Node& node : graph.nodes()) {
    if (live[node.id()]) read.insert(node.inputs().begin(), node.inputs().end());
  }
  return read;
}

Values chosen(const Values& values, const std::vector<bool>& which) {
  Values some;
  for (size_t i = 0; i < values.size(); ++i)
    if (which[i]) some.push_back(values[i]);
  return some;
}

// One loop and which of its inputs, variables first, it still needs.
class LoopInputs {
 public:
  LoopInputs(const Node& node, const ValueSet& read)
      : condition_(*node.bodies()[0]),
        body_(*node.bodies()[1]),
        variables_(body_.outputs().size()),
        needed_(body_.inputs().size(), false) {
    needed_[0] = true;  // the count
    for (size_t i = 1; i < variables_; ++i) needed_[i] = read.count(node.output(i)) != 0;
    need(condition_, condition_.outputs());
    for (std::vector<bool> before; before != needed_;) {
      before = needed_;
      need(body_, next());
    }
  }

  const std::vector<bool>& needed() const noexcept { return needed_; }
  bool is_variable(size_t i) const noexcept { return i < variables_; }
  bool needs_all() const {
    return std::find(needed_.begin(), needed_.end(), false) == needed_.end();
  }
  // The condition and the body without the other inputs.
  std::vector<std::shared_ptr<Graph>> bodies() const {
    return {with_needed(condition_, condition_.outputs()), with_needed(body_, next())};
  }

 private:
  // The body's results for the variables that are needed.
  Values next() const {
    return chosen(body_.outputs(),
                  {needed_.begin(), needed_.begin() + static_cast<std::ptrdiff_t>(variables_)});
  }
  void need(const Graph& graph, const Values& results) {
    const std::vector<bool> read = inputs_read(graph, results);
    for (size_t i = 0; i < read.size(); ++i) needed_[i] = needed_[i] || read[i];
  }
  std::shared_ptr<Graph> with_needed(const Graph& graph, const Values& results) const {
    auto smaller = std::make_shared<Graph>(graph.ops());
    Values arguments(graph.inputs().size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!needed_[i]) continue;
      const Node& input = graph.inputs()[i].node();
      const LabelScope label(*smaller, input.shared_label());
      arguments[i] =
          smaller->input(name_of(input), input.type().dtype, input.type().shape, input.site());
    }
    smaller->set_outputs(inline_body(graph, results, arguments, *smaller));
    return smaller;
  }

  const Graph& condition_;
  const Graph& body_;
  const size_t variables_;
  std::vector<bool> needed_;
};

using Bodies = std::vector<std::shared_ptr<Graph>>;

// Loops in bodies come behind the loop around them, whose variables may be all that reads theirs.
Bodies without_unread(Bodies bodies) {
  for (auto& body : bodies) {
    if (auto smaller = drop_unread_variables(*body)) body = std::move(smaller);
  }
  return bodies;
}

bool has_loop(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return node.is(OpRole::kWhile) || std::any_of(node.bodies().begin(), node.bodies().end(),
                                                  [](const auto& body) { return has_loop(*body); });
  });
}

void copy_loop(const Node& node, const LoopInputs& inputs, Rewriter& rewriter, Graph& to) {
  const Values operands = chosen(rewriter(node.data_inputs()), inputs.needed());
  const Node& copy =
      to.add(node.op(), operands, node.attributes(), node.site(), without_unread(inputs.bodies()));
  to.relabel(copy, node.shared_label());
  size_t output = 0;
  for (size_t i = 0; inputs.is_variable(i); ++i)
    if (inputs.needed()[i]) rewriter.map(node.output(i), copy.output(output++));
}

}  // namespace

// Most graphs are large and have no loop: a copy of all their nodes would be the same again.
std::unique_ptr<Graph> drop_unread_variables(const Graph& graph) {
  if (!has_loop(graph)) return nullptr;
  const std::vector<bool> live = live_nodes(graph);
  auto result = std::make_unique<Graph>(graph.ops());
  Rewriter rewriter(graph, *result);
  rewriter.clone_inputs();
  const ValueSet read = values_read(graph, live);
  for (const Node& node : graph.nodes()) {
    if (!live[node.id()] || node.is(OpRole::kInput)) continue;
    // Loops with effects keep all of them: an effect may be what a variable is for.
    if (node.is(OpRole::kWhile) && !node.ordered()) {
      if (const LoopInputs inputs(node, read); !inputs.needs_all()) {
        copy_loop(node, inputs, rewriter, *result);
        continue;
      }
    }
    rewriter.clone(node, without_unread(node.bodies()));
  }
  rewriter.finish();
  return result;
}

}  // namespace keel
