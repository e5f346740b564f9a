#include "keel/ops/parts/draws_of_rows.h"

#include <algorithm>
#include <utility>

#include "keel/graph/autodiff/flow.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"
#include "keel/ops/random.h"
#include "keel/ops/sum_of_parts.h"

namespace keel {
namespace {

constexpr const char* kDrawsAttribute = "draws";
constexpr const char* kOfRows = "rows";

using Mask = std::vector<bool>;

Mask mask_of(std::span<const Value> values, const ValueSet& set) {
  Mask mask;
  for (const Value& v : values) mask.push_back(set.contains(v));
  return mask;
}

void mark(const Node& node) {
  Graph& graph = node.output().graph();
  const LabelScope own(graph, node.shared_label());
  const AttributeScope of_rows(graph, kDrawsAttribute, kOfRows);
  graph.relabel(node, graph.label());
}

Mask mark_in_body(const Graph& body, const Mask& inputs);

// A variable of a loop depends on rows where any turn makes it so. `inputs` says it for the start.
Mask mark_in_loop(const Node& node, Mask inputs) {
  for (bool grown = true; grown;) {
    grown = false;
    const bool turns = mark_in_body(*node.bodies()[0], inputs)[0];
    const Mask next = mark_in_body(*node.bodies()[1], inputs);
    for (size_t i = 0; i < next.size(); ++i) {
      if (inputs[i] || !(turns || next[i])) continue;
      inputs[i] = grown = true;
    }
  }
  inputs.resize(node.data_types().size());
  return inputs;
}

Mask mark_in_branches(const Node& node, const Mask& inputs) {
  Mask outputs(node.data_types().size(), inputs[0]);
  const Mask operands(inputs.begin() + 1, inputs.end());
  for (const auto& body : node.bodies()) {
    const Mask own = mark_in_body(*body, operands);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = outputs[i] || own[i];
  }
  return outputs;
}

// Adds what the node makes of values with rows.
void follow(const Node& node, ValueSet& rows) {
  const Mask inputs = mask_of(node.data_inputs(), rows);
  if (std::find(inputs.begin(), inputs.end(), true) == inputs.end()) return;
  Mask outputs(node.data_types().size(), true);
  if (node.is(OpRole::kWhile)) outputs = mark_in_loop(node, inputs);
  if (node.is(OpRole::kCond)) outputs = mark_in_branches(node, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]) rows.insert(node.output(i));
  }
}

// Says which outputs depend on rows where these inputs do.
Mask mark_in_body(const Graph& body, const Mask& inputs) {
  ValueSet rows;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) rows.insert(body.inputs()[i]);
  }
  for (const Node& node : body.nodes()) {
    if (is_random_like(node) && rows.contains(node.input(1))) mark(node);
    follow(node, rows);
  }
  return mask_of(body.outputs(), rows);
}

bool draws_of_rows(const Node& node) {
  return is_random_like(node) && is_marked(node, kDrawsAttribute, kOfRows);
}

bool has_draws_of_rows(const Graph& body) {
  return std::any_of(body.nodes().begin(), body.nodes().end(), [](const Node& node) {
    return draws_of_rows(node) ||
           std::any_of(node.bodies().begin(), node.bodies().end(),
                       [](const auto& inner) { return has_draws_of_rows(*inner); });
  });
}

std::shared_ptr<Graph> body_of_part(const std::shared_ptr<Graph>& body, int64_t part) {
  if (!has_draws_of_rows(*body)) return body;
  auto result = std::make_shared<Graph>(body->ops());
  Rewriter rewriter(*body, *result);
  rewriter.clone_inputs();
  for (const Node& node : body->nodes()) {
    if (node.is(OpRole::kInput)) continue;
    rewriter.clone(node, draws_of_rows(node) ? draws_of_part(node, part) : node.attributes(),
                   bodies_of_part(node, part));
  }
  rewriter.finish();
  return result;
}

}  // namespace

bool is_random_like(const Node& node) {
  return node.op().attributes == &attributes_schema<RandomLikeAttributes>();
}

Attributes draws_of_part(const Node& node, int64_t part) {
  RandomLikeAttributes a = node.as<RandomLikeAttributes>();
  a.first += part * node.type().shape.num_elements();
  return Attributes::of(a);
}

std::vector<std::shared_ptr<Graph>> bodies_of_part(const Node& node, int64_t part) {
  std::vector<std::shared_ptr<Graph>> bodies = node.bodies();
  if (part == 0) return bodies;
  for (auto& body : bodies) body = body_of_part(body, part);
  return bodies;
}

void mark_draws_of_rows(const Values& values, const std::vector<BatchPart>& batch) {
  uint32_t last = 0;
  for (const Value& v : values) last = std::max(last, v.node_id());
  ValueSet rows;
  for (const BatchPart& pair : batch) rows.insert(pair.part);
  const Graph& graph = values[0].graph();
  for (uint32_t id = 0; id <= last; ++id) follow(graph.node(id), rows);
}

}  // namespace keel
