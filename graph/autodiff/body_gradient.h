// Bodies as functions: put into another graph, and differentiated. For graph/control alone.
#ifndef KEEL_GRAPH_AUTODIFF_BODY_GRADIENT_H
#define KEEL_GRAPH_AUTODIFF_BODY_GRADIENT_H

#include <memory>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"

namespace keel {

// Says for each input of the body whether the `results` (values of the body) are computed from it.
std::vector<bool> inputs_read(const Graph& body, const Values& results);

// Adds to `to` what computes `results`, with `arguments` (values of `to` or of graphs around it)
// for the inputs, and returns them. Arguments that are not read may be invalid.
Values inline_body(const Graph& body, const Values& results, const Values& arguments, Graph& to);

// Returns a graph whose inputs are those of `body` and behind them one seed for each of its outputs
// `ys` (by index), and whose outputs are the gradients of its inputs `xs` (by index). It computes
// anew what it needs of the body.
std::unique_ptr<Graph> differentiate_body(const Graph& body, const std::vector<size_t>& ys,
                                          const std::vector<size_t>& xs, CallSite site);

// Returns the new node's only output; attributes left out have their defaults.
Value emit_op(const char* op, const std::vector<Operand>& operands, const AttributeList& attributes,
              CallSite site);
// Makes a value of this type with one number everywhere.
Value filled(Graph& graph, const Type& type, double number, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_AUTODIFF_BODY_GRADIENT_H
