#include "keel/graph/ir/emit.h"

#include <string>

namespace keel {

Graph& innermost_graph(std::span<const Operand> operands, const char* op) {
  Graph* innermost = nullptr;
  for (const Operand& operand : operands) {
    if (operand.is_literal()) continue;
    Graph& graph = operand.value().graph();
    if (innermost == nullptr || graph.depth() > innermost->depth()) innermost = &graph;
  }
  if (innermost == nullptr) {
    throw Error({.op = op,
                 .expected = "at least one Value among the operands",
                 .got = "numbers only",
                 .fix = "compute it in C++, or make one a graph constant",
                 .site = operands.empty() ? CallSite{} : operands[0].site()});
  }
  return *innermost;
}

namespace {

const Node& emit_node(std::string_view op, const std::vector<Operand>& operands,
                      Attributes attributes, CallSite site) {
  const std::string name(op);
  Graph& graph = innermost_graph(operands, name.c_str());
  DType dtype = f32;
  for (const Operand& operand : operands) {
    if (operand.is_literal()) continue;
    dtype = operand.value().dtype();
    // A predicate says nothing of the dtype that a literal beside it should
    // have.
    if (dtype != boolean) break;
  }
  const CallSite at = site.known() || operands.empty() ? site : operands[0].site();
  Values inputs;
  inputs.reserve(operands.size());
  for (const Operand& operand : operands) {
    inputs.push_back(
        to_value(site.known() ? operand.at(site) : operand, graph, dtype, name.c_str()));
  }
  return graph.add(op, std::move(inputs), std::move(attributes), at);
}

}  // namespace

Value emit(std::string_view op, const std::vector<Operand>& operands, Attributes attributes,
           CallSite site) {
  return emit_node(op, operands, std::move(attributes), site).output();
}

Values emit_all(std::string_view op, const std::vector<Operand>& operands, Attributes attributes,
                CallSite site) {
  const Node& node = emit_node(op, operands, std::move(attributes), site);
  Values outputs;
  for (size_t i = 0; i < node.types().size(); ++i) outputs.push_back(node.output(i));
  return outputs;
}

}  // namespace keel
