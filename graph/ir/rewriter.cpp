#include "keel/graph/ir/rewriter.h"

#include <utility>

#include "keel/core/base/error.h"

namespace keel {

Rewriter::Rewriter(const Graph& from, Graph& to) : from_(from), to_(to), fresh_(from) {}

const Rewriter::Fresh& Rewriter::fresh(const Value& old) const {
  const Fresh& fresh = fresh_[old];
  if (!fresh.value.valid()) throw Error("a pass reads a value that it has not copied");
  return fresh;
}

Value Rewriter::operator()(Value old) const { return fresh(old).value; }

Values Rewriter::operator()(std::span<const Value> old) const {
  Values fresh;
  fresh.reserve(old.size());
  for (const Value& v : old) fresh.push_back((*this)(v));
  return fresh;
}

const Node& Rewriter::clone(const Node& node) {
  if (node.is(OpRole::kToken)) {
    map(node.output(), to_.token());
    return to_.token().node();
  }
  return mapped_to(node, add_copy(node));
}

const Node& Rewriter::add_copy(const Node& node) {
  inputs_.clear();
  bool types_hold = true;
  for (const Value& old : node.data_inputs()) {
    const Fresh& input = fresh(old);
    inputs_.push_back(input.value);
    types_hold = types_hold && input.same_type && to_.owns(input.value);
  }
  return to_.add_copy(node, inputs_, types_hold);
}

const Node& Rewriter::clone(const Node& node, std::vector<std::shared_ptr<Graph>> bodies) {
  return clone(node, node.attributes(), std::move(bodies));
}

const Node& Rewriter::clone(const Node& node, Attributes attributes,
                            std::vector<std::shared_ptr<Graph>> bodies) {
  return clone(node, (*this)(node.data_inputs()), std::move(attributes), std::move(bodies));
}

const Node& Rewriter::clone(const Node& node, Values inputs, Attributes attributes,
                            std::vector<std::shared_ptr<Graph>> bodies) {
  if (node.is(OpRole::kToken)) return clone(node);
  // The copy takes the token that is the last one there: behind what a pass has put before it, and
  // none where its bodies have lost their effects.
  inputs.resize(node.data_inputs().size());
  if (bodies == node.bodies() && attributes == node.attributes())
    return mapped_to(node, to_.add_copy(node, inputs));
  return mapped_to(node, to_.add(node.op(), std::move(inputs), std::move(attributes), node.site(),
                                 std::move(bodies)));
}

const Node& Rewriter::mapped_to(const Node& node, const Node& copy) {
  to_.relabel(copy, node.shared_label());
  const size_t results = node.data_types().size();
  const bool same_types = copy.data_types() == node.data_types();
  for (size_t i = 0; i < results; ++i) {
    if (same_types)
      fresh_[node.output(i)] = {copy.output(i), true};
    else
      map(node.output(i), copy.output(i));
  }
  if (node.ordered()) map(node.output(results), to_.token());
  return copy;
}

void Rewriter::clone_inputs() {
  for (const Value& input : from_.inputs()) clone(input.node());
}

void Rewriter::finish() {
  to_.set_outputs((*this)(from_.outputs()));
  for (const Assignment& a : from_.updates()) to_.add_update((*this)(a.state), (*this)(a.next));
}

std::vector<Type> body_input_types(const Node& node, const Values& inputs) {
  const size_t first = node.is(OpRole::kCond) ? 1 : 0;
  std::vector<Type> types;
  for (size_t i = first; i < inputs.size(); ++i) types.push_back(inputs[i].type());
  return types;
}

std::vector<bool> live_nodes(const Graph& graph) {
  std::vector<bool> live(graph.size(), false);
  const auto mark = [&](Value v) { live[v.node_id()] = true; };
  for (const Value& v : graph.outputs()) mark(v);
  // Inputs are a graph's signature: they stay even where nothing reads them.
  for (const Value& v : graph.inputs()) mark(v);
  for (const Assignment& a : graph.updates()) {
    mark(a.state);
    mark(a.next);
  }
  for (uint32_t id = static_cast<uint32_t>(graph.size()); id-- > 0;) {
    const Node& node = graph.node(id);
    if (node.ordered()) live[id] = true;
    if (!live[id]) continue;
    for (const Value& input : node.inputs()) live[input.node_id()] = true;
  }
  return live;
}

}  // namespace keel
