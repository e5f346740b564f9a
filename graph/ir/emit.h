// emit: how builder functions add nodes. Picks the innermost graph among the
// operands, gives literals the dtype of the first Value operand, captures
// values of enclosing graphs, runs inference, and reports errors with the
// user's line.
#ifndef KEEL_GRAPH_IR_EMIT_H
#define KEEL_GRAPH_IR_EMIT_H

#include <span>
#include <string_view>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"

namespace keel {

// Returns the innermost graph among the values, where `op` is going to add a node. Throws Error,
// naming `site` or where that is not known the operand's line, for an empty Value, for a value of a
// body that is finished, and when there is no Value at all.
KEEL_API Graph& innermost_graph(std::span<const Operand> operands, const char* op,
                                CallSite site = {});

// Returns the only output of a new node. An unknown `site` means the first operand's; a known one
// also covers literals.
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
