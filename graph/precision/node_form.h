// NodeForm: a node in one of the forms of a precision mode: the dtypes of its operands, its
// attributes, its label. Pure functions; any thread.
#ifndef KEEL_GRAPH_PRECISION_NODE_FORM_H
#define KEEL_GRAPH_PRECISION_NODE_FORM_H

#include <optional>
#include <vector>

#include "keel/graph/passes/passes.h"
#include "keel/graph/precision/dtype_overrides.h"
#include "keel/graph/precision/precision_mode.h"

namespace keel {

struct NodeForm {
  std::vector<DType> inputs;
  Attributes attributes;
  NodeLabelPtr label;
  std::vector<DType> outputs = {};  // what results are cast to; empty: as they come
};

// f32, f16 or bf16: what precision modes are about.
inline bool is_scaled_float(DType dtype) { return dtype == f32 || dtype == f16 || dtype == bf16; }
bool has_scaled_float(const Node& node);

// Returns the node in a form; nothing where the form is not for it: it has no operand that would
// change, or is a product that cannot keep f32 sums. REQUIRES `low` for kWide and kLow.
std::optional<NodeForm> node_in(const Node& node, PrecisionForm form, std::optional<DType> low);
// Returns a product of operands that are low already, with f32 sums and results; nothing for other
// nodes.
std::optional<NodeForm> widened(const Node& node, DType low);
// Returns the node as a rule of customised dtypes wants it. Throws Error where the rule has another
// number of dtypes than the node, or changes what is no f32, f16 or bf16.
NodeForm node_by(const Node& node, const DtypeRule& rule);

// Returns whether the backend takes the node in that form, and the casts that lead there.
Support supports_form(const Node& node, const NodeForm& form, const SupportsFunction& supports);

// Returns a value of the graph in another dtype.
Value cast_to(Graph& graph, Value value, DType dtype, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_PRECISION_NODE_FORM_H
