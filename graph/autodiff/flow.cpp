#include "keel/graph/autodiff/flow.h"

#include <algorithm>
#include <span>

namespace keel {
namespace {

bool any(const std::vector<bool>& mask) {
  return std::find(mask.begin(), mask.end(), true) != mask.end();
}

std::vector<bool> mask_of(std::span<const Value> values, const ValueSet& set) {
  std::vector<bool> mask;
  for (const Value& v : values) mask.push_back(set.contains(v));
  return mask;
}

// Returns the outputs of a node that change with the inputs marked.
std::vector<bool> outputs_reached(const Node& node, const std::vector<bool>& inputs) {
  std::vector<bool> outputs(node.data_types().size(), !node.is(OpRole::kStopGradient));
  if (node.is(OpRole::kWhile)) {
    outputs = varied_in_loop(*node.bodies()[1], inputs);
    outputs.resize(node.data_types().size());
  } else if (node.is(OpRole::kCond)) {
    outputs.assign(outputs.size(), false);
    const std::vector<bool> operands(inputs.begin() + 1, inputs.end());
    for (const auto& body : node.bodies()) {
      const auto reached =
          mask_of(body->outputs(), dependents_of(*body, select_floats(body->inputs(), operands)));
      for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = outputs[i] || reached[i];
    }
  }
  return outputs;
}

// Returns the inputs of a node that the outputs marked are computed from.
std::vector<bool> inputs_leading(const Node& node, const std::vector<bool>& outputs) {
  std::vector<bool> inputs(node.data_inputs().size(), !node.is(OpRole::kStopGradient));
  if (node.is(OpRole::kWhile)) {
    const Graph& body = *node.bodies()[1];
    const std::vector<bool> useful = useful_in_loop(body, outputs);
    inputs = mask_of(body.inputs(), sources_of(body, select_floats(body.outputs(), useful)));
    // A loop of no turns passes its variables on.
    for (size_t i = 0; i < useful.size(); ++i) inputs[i] = useful[i];
  } else if (node.is(OpRole::kCond)) {
    inputs.assign(inputs.size(), false);
    for (const auto& body : node.bodies()) {
      const auto leading =
          mask_of(body->inputs(), sources_of(*body, select_floats(body->outputs(), outputs)));
      for (size_t i = 0; i < leading.size(); ++i) inputs[i + 1] = inputs[i + 1] || leading[i];
    }
  }
  return inputs;
}

// Adds to `set` what is computed from values in it, and hands each of these on.
template <class Visit>
void visit_computed(const Graph& graph, ValueSet& set, const Visit& visit) {
  for (const Node& node : graph.nodes()) {
    const std::vector<bool> inputs = mask_of(node.data_inputs(), set);
    if (!any(inputs)) continue;
    const std::vector<bool> outputs = outputs_reached(node, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i] || !is_float(node.type(i).dtype)) continue;
      set.insert(node.output(i));
      visit(node.output(i));
    }
  }
}

}  // namespace

Values select_floats(const Values& values, const std::vector<bool>& mask) {
  Values selected;
  for (size_t i = 0; i < values.size(); ++i) {
    if (mask[i] && is_float(values[i].dtype())) selected.push_back(values[i]);
  }
  return selected;
}

ValueSet dependents_of(const Graph& graph, const Values& xs) {
  ValueSet set(xs.begin(), xs.end());
  if (xs.empty()) return set;
  visit_computed(graph, set, [](const Value&) {});
  return set;
}

ValueSet floats_computed_from(const Graph& graph, const Values& xs) {
  ValueSet set(xs.begin(), xs.end());
  ValueSet computed;
  visit_computed(graph, set, [&](const Value& v) { computed.insert(v); });
  return computed;
}

ValueSet sources_of(const Graph& graph, const Values& ys) {
  ValueSet set(ys.begin(), ys.end());
  uint32_t end = 0;
  for (const Value& y : ys) end = std::max(end, y.node_id() + 1);
  for (uint32_t id = end; id-- > 0;) {
    const Node& node = graph.node(id);
    std::vector<bool> outputs;
    for (size_t i = 0; i < node.data_types().size(); ++i)
      outputs.push_back(set.contains(node.output(i)));
    if (!any(outputs)) continue;
    const std::vector<bool> inputs = inputs_leading(node, outputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] && is_float(node.input(i).dtype())) set.insert(node.input(i));
    }
  }
  return set;
}

std::vector<bool> varied_in_loop(const Graph& body, std::vector<bool> varied) {
  for (bool changed = true; changed;) {
    changed = false;
    const ValueSet set = dependents_of(body, select_floats(body.inputs(), varied));
    for (size_t i = 0; i < body.outputs().size(); ++i) {
      if (varied[i] || !set.contains(body.outputs()[i])) continue;
      varied[i] = changed = true;
    }
  }
  return varied;
}

std::vector<bool> useful_in_loop(const Graph& body, std::vector<bool> useful) {
  for (bool changed = true; changed;) {
    changed = false;
    const ValueSet set = sources_of(body, select_floats(body.outputs(), useful));
    for (size_t i = 0; i < useful.size(); ++i) {
      if (useful[i] || !set.contains(body.inputs()[i])) continue;
      useful[i] = changed = true;
    }
  }
  return useful;
}

}  // namespace keel
