#include "keel/graph/autodiff/flow.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

namespace keel {
namespace {

using Mask = std::vector<bool>;

bool any(const Mask& mask) { return std::find(mask.begin(), mask.end(), true) != mask.end(); }

// Answers one question about a graph. What the bodies in it say is remembered meanwhile: each turn
// of a fixpoint and each use of its result asks a body again, which asks those in it as often, so
// that the time would double with each level.
class Flow {
 public:
  // Adds to `set` what is computed from values in it, and hands each of these on.
  template <class Visit>
  void visit_computed(const Graph& graph, ValueSet& set, const Visit& visit) {
    for (const Node& node : graph.nodes()) {
      const Mask inputs = mask_of_members(node.data_inputs(), set);
      if (!any(inputs)) continue;
      const Mask outputs = outputs_reached(node, inputs);
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (!outputs[i] || !is_float(node.type(i).dtype)) continue;
        set.insert(node.output(i));
        visit(node.output(i));
      }
    }
  }

  ValueSet dependents(const Graph& graph, const Values& xs) {
    ValueSet set(xs.begin(), xs.end());
    if (!xs.empty()) visit_computed(graph, set, [](const Value&) {});
    return set;
  }

  ValueSet sources(const Graph& graph, const Values& ys) {
    ValueSet set(ys.begin(), ys.end());
    uint32_t end = 0;
    for (const Value& y : ys) end = std::max(end, y.node_id() + 1);
    for (uint32_t id = end; id-- > 0;) {
      const Node& node = graph.node(id);
      Mask outputs;
      for (size_t i = 0; i < node.data_types().size(); ++i)
        outputs.push_back(set.contains(node.output(i)));
      if (!any(outputs)) continue;
      const Mask inputs = inputs_leading(node, outputs);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] && is_float(node.input(i).dtype())) set.insert(node.input(i));
      }
    }
    return set;
  }

  Mask varied_in_loop(const Graph& body, Mask varied) {
    for (bool changed = true; changed;) {
      changed = false;
      const Mask& reached = reached_in(body, varied);
      for (size_t i = 0; i < reached.size(); ++i) {
        if (varied[i] || !reached[i]) continue;
        varied[i] = changed = true;
      }
    }
    return varied;
  }

  Mask useful_in_loop(const Graph& body, Mask useful) {
    for (bool changed = true; changed;) {
      changed = false;
      const Mask& leading = leading_in(body, useful);
      for (size_t i = 0; i < useful.size(); ++i) {
        if (useful[i] || !leading[i]) continue;
        useful[i] = changed = true;
      }
    }
    return useful;
  }

 private:
  using Answers = std::map<std::pair<const Graph*, Mask>, Mask>;

  // Returns the outputs of a body that change with the inputs marked.
  const Mask& reached_in(const Graph& body, const Mask& inputs) {
    const std::pair key(&body, inputs);
    if (const auto known = reached_.find(key); known != reached_.end()) return known->second;
    const ValueSet set = dependents(body, select_floats(body.inputs(), inputs));
    return reached_.emplace(key, mask_of_members(body.outputs(), set)).first->second;
  }

  // Returns the inputs of a body that the outputs marked are computed from.
  const Mask& leading_in(const Graph& body, const Mask& outputs) {
    const std::pair key(&body, outputs);
    if (const auto known = leading_.find(key); known != leading_.end()) return known->second;
    const ValueSet set = sources(body, select_floats(body.outputs(), outputs));
    return leading_.emplace(key, mask_of_members(body.inputs(), set)).first->second;
  }

  // Returns the outputs of a node that change with the inputs marked.
  Mask outputs_reached(const Node& node, const Mask& inputs) {
    Mask outputs(node.data_types().size(), !node.is(OpRole::kStopGradient));
    if (node.is(OpRole::kWhile)) {
      outputs = varied_in_loop(*node.bodies()[1], inputs);
      outputs.resize(node.data_types().size());
    } else if (node.is(OpRole::kCond)) {
      outputs.assign(outputs.size(), false);
      const Mask operands(inputs.begin() + 1, inputs.end());
      for (const auto& body : node.bodies()) {
        const Mask& reached = reached_in(*body, operands);
        for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = outputs[i] || reached[i];
      }
    }
    return outputs;
  }

  // Returns the inputs of a node that the outputs marked are computed from.
  Mask inputs_leading(const Node& node, const Mask& outputs) {
    Mask inputs(node.data_inputs().size(), !node.is(OpRole::kStopGradient));
    if (node.is(OpRole::kWhile)) {
      const Graph& body = *node.bodies()[1];
      const Mask useful = useful_in_loop(body, outputs);
      inputs = leading_in(body, useful);
      // A loop of no turns passes its variables on.
      for (size_t i = 0; i < useful.size(); ++i) inputs[i] = useful[i];
    } else if (node.is(OpRole::kCond)) {
      inputs.assign(inputs.size(), false);
      for (const auto& body : node.bodies()) {
        const Mask& leading = leading_in(*body, outputs);
        for (size_t i = 0; i < leading.size(); ++i) inputs[i + 1] = inputs[i + 1] || leading[i];
      }
    }
    return inputs;
  }

  Answers reached_, leading_;  // by the body and what is marked of it
};

}  // namespace

std::vector<bool> mask_of_members(std::span<const Value> values, const ValueSet& set,
                                  size_t first) {
  std::vector<bool> mask;
  for (size_t i = first; i < values.size(); ++i) mask.push_back(set.contains(values[i]));
  return mask;
}

Values select_floats(const Values& values, const std::vector<bool>& mask) {
  Values selected;
  for (size_t i = 0; i < values.size(); ++i) {
    if (mask[i] && is_float(values[i].dtype())) selected.push_back(values[i]);
  }
  return selected;
}

ValueSet dependents_of(const Graph& graph, const Values& xs) {
  return Flow().dependents(graph, xs);
}

ValueSet floats_computed_from(const Graph& graph, const Values& xs) {
  ValueSet set(xs.begin(), xs.end());
  ValueSet computed;
  Flow().visit_computed(graph, set, [&](const Value& v) { computed.insert(v); });
  return computed;
}

ValueSet sources_of(const Graph& graph, const Values& ys) { return Flow().sources(graph, ys); }

std::vector<bool> varied_in_loop(const Graph& body, std::vector<bool> varied) {
  return Flow().varied_in_loop(body, std::move(varied));
}

std::vector<bool> useful_in_loop(const Graph& body, std::vector<bool> useful) {
  return Flow().useful_in_loop(body, std::move(useful));
}

}  // namespace keel
