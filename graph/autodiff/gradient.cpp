#include "keel/graph/autodiff/gradient.h"

#include <string>
#include <utility>

#include "keel/graph/ir/emit.h"

namespace keel {
namespace {

// By node id up to y's node: whether the node depends on one of the xs through float values.
std::vector<bool> depends_on(const Graph& graph, const Values& xs, uint32_t last) {
  std::vector<bool> depends(last + 1, false);
  for (const Value& x : xs) {
    if (x.node_id() <= last) depends[x.node_id()] = true;
  }
  for (uint32_t id = 0; id <= last; ++id) {
    for (const Value& input : graph.node(id).inputs()) {
      if (is_float(input.dtype()) && depends[input.node_id()]) depends[id] = true;
    }
  }
  return depends;
}

// By node id: whether y's node depends on the node through float values.
std::vector<bool> needed_by(const Graph& graph, Value y) {
  std::vector<bool> needed(y.node_id() + 1, false);
  needed[y.node_id()] = true;
  for (uint32_t id = y.node_id() + 1; id-- > 0;) {
    if (!needed[id]) continue;
    for (const Value& input : graph.node(id).inputs()) {
      if (is_float(input.dtype())) needed[input.node_id()] = true;
    }
  }
  return needed;
}

void check_path(const Graph& graph, Value y, const Values& xs, CallSite site) {
  const std::vector<bool> needed = needed_by(graph, y);
  const std::vector<bool> depends = depends_on(graph, xs, y.node_id());
  std::vector<bool> is_x(y.node_id() + 1, false);
  for (const Value& x : xs) {
    if (x.node_id() <= y.node_id()) is_x[x.node_id()] = true;
  }
  for (uint32_t id = 0; id <= y.node_id(); ++id) {
    const Node& node = graph.node(id);
    if (!needed[id] || !depends[id] || is_x[id]) continue;
    if (node.op().gradient != nullptr || node.op_name() == "gradient") continue;
    if (!is_float(node.type().dtype) && node.types().size() == 1) continue;
    throw Error({.op = "gradient",
                 .argument = node.op_name() + " at " + to_string(node.site()),
                 .message = "is on the path from the parameters to the result but has no gradient",
                 .fix = node.op().not_differentiable.empty()
                            ? "cut the path with stop_gradient, or express it by other ops"
                            : node.op().not_differentiable,
                 .site = site});
  }
}

Value zeros_like(Graph& graph, const Type& type, CallSite site) {
  const Value zero = graph.constant(Tensor::full(type.dtype, Shape{}, 0), site);
  if (type.shape.rank() == 0) return zero;
  return graph.constant(Tensor(type.dtype, type.shape), site);
}

}  // namespace

Values gradients(Operand y, const Values& xs, CallSite site) {
  const auto fail = [&](const std::string& argument, const std::string& expected,
                        const std::string& got) {
    throw Error(
        {.op = "gradient", .argument = argument, .expected = expected, .got = got, .site = site});
  };
  if (y.is_literal()) fail("y", "a Value", "a number");
  const Value& loss = y.value();
  if (!is_float(loss.dtype()) || loss.shape().rank() != 0) {
    fail("y", "a float scalar (take its sum or mean)", to_string(loss.type()));
  }
  if (xs.empty()) return {};
  Graph& graph = loss.graph();
  Values inputs{loss};
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!xs[i].valid() || !is_float(xs[i].dtype())) {
      fail("x " + std::to_string(i), "a float Value",
           xs[i].valid() ? to_string(xs[i].type()) : "an empty Value");
    }
    inputs.push_back(graph.capture(xs[i]));
  }
  check_path(graph, loss, Values(inputs.begin() + 1, inputs.end()), site);
  const Node& node = graph.add("gradient", std::move(inputs), Attributes(), site);
  Values result;
  for (size_t i = 0; i < xs.size(); ++i) result.push_back(node.output(i));
  return result;
}

Values expand_gradients(Value y, const Values& xs, Value seed, CallSite site) {
  Graph& graph = y.graph();
  const uint32_t last = y.node_id();
  const std::vector<bool> depends = depends_on(graph, xs, last);
  // Partial gradients of each output of each node, added up when the node is reached.
  std::vector<std::vector<Values>> partial(last + 1);
  const auto flow = [&](Value to, Value gradient) {
    if (to.node_id() > last || !depends[to.node_id()]) return;
    auto& outputs = partial[to.node_id()];
    outputs.resize(to.node().types().size());
    outputs[to.output()].push_back(gradient);
  };
  const auto total = [&](Value of) -> Value {
    if (of.node_id() > last) return {};
    auto& outputs = partial[of.node_id()];
    if (outputs.empty() || outputs[of.output()].empty()) return {};
    Values& parts = outputs[of.output()];
    while (parts.size() > 1) {
      // In pairs from the front, so that the order of additions depends on the graph alone.
      const Value sum = emit("add", {Operand(parts[0], site), Operand(parts[1], site)}, site);
      parts.erase(parts.begin());
      parts[0] = sum;
    }
    return parts[0];
  };
  flow(y, seed);
  for (uint32_t id = last + 1; id-- > 0;) {
    if (!depends[id] || partial[id].empty()) continue;
    const Node& node = graph.node(id);
    if (node.inputs().empty()) continue;
    if (node.op().gradient == nullptr) {
      if (!is_float(node.type().dtype)) continue;
      check_path(graph, y, xs, site);
      continue;
    }
    Values outputs;
    Values output_gradients;
    for (size_t i = 0; i < node.types().size(); ++i) {
      outputs.push_back(node.output(i));
      output_gradients.push_back(total(node.output(i)));
    }
    const Values flows =
        node.op().gradient(BuildContext{node.op(), node.attributes(), node.inputs(), outputs,
                                        output_gradients, node.bodies(), graph, node.site()});
    for (size_t i = 0; i < flows.size(); ++i) {
      if (!flows[i].valid()) continue;
      if (flows[i].type() != node.input(i).type()) {
        throw Error({.op = node.op_name(),
                     .argument = "gradient of input " + std::to_string(i),
                     .expected = to_string(node.input(i).type()),
                     .got = to_string(flows[i].type()),
                     .site = node.site()});
      }
      flow(node.input(i), flows[i]);
    }
  }
  Values result;
  for (const Value& x : xs) {
    const Value gradient = total(x);
    result.push_back(gradient.valid() ? gradient : zeros_like(graph, x.type(), site));
  }
  return result;
}

}  // namespace keel
