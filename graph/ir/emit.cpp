#include "keel/graph/ir/emit.h"

#include <string>

#include "keel/graph/ir/frozen.h"

namespace keel {

namespace {

// Returns what the op calls its operand `index`; `count` of them were given.
std::string operand_name(const char* op, size_t index, size_t count) {
  const OpDef* known = builtin_ops().find(op);
  if (known != nullptr && index < known->input_names.size() && !known->variadic)
    return known->input_names[index];
  return count == 1 ? "" : "operand " + std::to_string(index);
}

Graph& innermost_graph(std::span<const Operand> operands, const char* op, CallSite site) {
  Graph* innermost = nullptr;
  size_t which = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    if (operand.is_empty_value())
      require_value(operand, op, operand_name(op, i, operands.size()).c_str(), site);
    if (operand.is_literal()) continue;
    Graph& graph = operand.value().graph();
    if (innermost != nullptr && graph.depth() <= innermost->depth()) continue;
    innermost = &graph;
    which = i;
  }
  if (innermost == nullptr) {
    throw Error({.op = op,
                 .expected = "at least one Value among the operands",
                 .got = operands.empty() ? "no operands" : "numbers only",
                 .fix = operands.empty() ? "" : "compute it in C++, or make one a graph constant",
                 .site = site.known() || operands.empty() ? site : operands[0].site()});
  }
  if (innermost->finished()) {
    innermost->require_open(op, operand_name(op, which, operands.size()), operands[which].value(),
                            site.known() ? site : operands[which].site());
  }
  // Before numbers among the operands become constants, which would be refused instead.
  if (innermost->frozen()) refuse_frozen(op, site.known() ? site : operands[which].site());
  return *innermost;
}

// A value that is the same in all turns of a loop is computed once, before it, and so is its
// gradient; where the loop may have no turn, or a branch is around the op, it must not be.
Graph& graph_of_node(std::string_view op, std::span<const Operand> operands, CallSite site) {
  Graph& operands_are_in = innermost_graph(operands, std::string(op).c_str(), site);
  Graph* graph = &operands_are_in.under_construction();
  if (graph == &operands_are_in || graph->ops().at(op).has(kEffect)) return *graph;
  while (graph != &operands_are_in && graph->always_runs()) graph = graph->parent();
  return *graph;
}

const Node& emit_node(std::string_view op, const std::vector<Operand>& operands,
                      Attributes attributes, CallSite site) {
  const std::string name(op);
  Graph& graph = graph_of_node(op, operands, site);
  DType dtype = f32;
  for (const Operand& operand : operands) {
    if (operand.is_literal()) continue;
    dtype = operand.value().dtype(site.known() ? site : operand.site());
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

Graph& graph_of_call(std::span<const Operand> operands, const char* op, CallSite site) {
  return innermost_graph(operands, op, site).under_construction();
}

Value emit(std::string_view op, const std::vector<Operand>& operands, Attributes attributes,
           CallSite site) {
  return emit_node(op, operands, std::move(attributes), site).output();
}

Values emit_all(std::string_view op, const std::vector<Operand>& operands, Attributes attributes,
                CallSite site) {
  const Node& node = emit_node(op, operands, std::move(attributes), site);
  Values outputs;
  for (size_t i = 0; i < node.data_types().size(); ++i) outputs.push_back(node.output(i));
  return outputs;
}

}  // namespace keel
