#include "keel/graph/autodiff/body_gradient.h"

#include <string>
#include <utility>

#include "keel/graph/autodiff/control_gradient.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/rewriter.h"

namespace keel {
namespace {

std::vector<bool> nodes_read(const Graph& body, const Values& results) {
  std::vector<bool> read(body.size(), false);
  for (const Value& v : results) read[v.node_id()] = true;
  for (uint32_t id = static_cast<uint32_t>(body.size()); id-- > 0;) {
    if (!read[id]) continue;
    for (const Value& v : body.node(id).inputs()) read[v.node_id()] = true;
  }
  return read;
}

}  // namespace

std::vector<bool> inputs_read(const Graph& body, const Values& results) {
  const std::vector<bool> read = nodes_read(body, results);
  std::vector<bool> inputs;
  for (const Value& v : body.inputs()) inputs.push_back(read[v.node_id()]);
  return inputs;
}

Values inline_body(const Graph& body, const Values& results, const Values& arguments, Graph& to) {
  const std::vector<bool> read = nodes_read(body, results);
  Rewriter rewriter(body, to);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].valid()) rewriter.map(body.inputs()[i], arguments[i]);
  }
  for (const Node& node : body.nodes()) {
    if (read[node.id()] && !node.is(OpRole::kInput)) rewriter.clone(node);
  }
  return rewriter(results);
}

std::unique_ptr<Graph> differentiate_body(const Graph& body, const std::vector<size_t>& ys,
                                          const std::vector<size_t>& xs, CallSite site) {
  Graph graph(body.ops());
  Values inputs;
  for (const Value& v : body.inputs()) {
    inputs.push_back(
        graph.input("x" + std::to_string(inputs.size()), v.dtype(), v.shape(), v.node().site()));
  }
  Values results;
  Values seeds;
  for (const size_t y : ys) {
    const Value v = body.outputs()[y];
    results.push_back(v);
    seeds.push_back(graph.input("d" + std::to_string(y), v.dtype(), v.shape(), site));
  }
  Values of;
  for (const size_t x : xs) of.push_back(inputs[x]);
  results = inline_body(body, results, inputs, graph);
  graph.set_outputs(expand_gradients(results, of, seeds, site));
  return place_checkpointed_forwards(graph);
}

Value emit_op(const char* op, const std::vector<Operand>& operands, const AttributeList& attributes,
              CallSite site) {
  if (attributes.empty()) return emit(op, operands, site);
  const Graph& graph = innermost_graph(operands, op);
  return emit(op, operands, graph.ops().at(op).attributes->parse(attributes), site);
}

Value filled(Graph& graph, const Type& type, double number, CallSite site) {
  const Value one = graph.constant(Tensor::full(type.dtype, Shape{}, number), site);
  if (type.shape.rank() == 0) return one;
  return emit_op("broadcast_to", {Operand(one, site)}, {{"shape", type.shape}}, site);
}

}  // namespace keel
