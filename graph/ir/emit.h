// emit: how builder functions add nodes. Picks the graph that the node is for, gives literals the
// dtype of the first Value operand, captures values of enclosing graphs, runs inference, and
// reports errors with the user's line.
#ifndef KEEL_GRAPH_IR_EMIT_H
#define KEEL_GRAPH_IR_EMIT_H

#include <span>
#include <string_view>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"

namespace keel {

// Returns the graph that a call is made in: the body that is being built around it, also where all
// operands are values from outside, else the innermost graph among the values. Throws Error, naming
// `site` or where that is not known the operand's line, for an empty Value, for a value of a body
// that is finished, and when there is no Value at all.
KEEL_API Graph& graph_of_call(std::span<const Operand> operands, const char* op,
                              CallSite site = {});

// Adds a node to the graph that the call is made in, and returns its only output. In the body of a
// loop of one or more known turns, what reads nothing that may change from turn to turn goes to the
// graph around it, unless it has an effect. An unknown `site` means the first operand's; a known
// one also covers literals.
KEEL_API Value emit(std::string_view op, const std::vector<Operand>& operands,
                    Attributes attributes, CallSite site);
inline Value emit(std::string_view op, const std::vector<Operand>& operands, CallSite site) {
  return emit(op, operands, Attributes(), site);
}
// Returns all outputs of a new node.
KEEL_API Values emit_all(std::string_view op, const std::vector<Operand>& operands,
                         Attributes attributes, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_EMIT_H
