// RowStack: how values of one type, one for each turn of a loop, are kept as rows of a tensor, by
// the gradients of loops and by loops that are imported.
// Written by scatter_add, which in a loop works in place, to rows that hold the neutral element of
// addition, so that every bit is kept; read by gather. A plain value; any thread.
#ifndef KEEL_GRAPH_AUTODIFF_ROW_STACK_H
#define KEEL_GRAPH_AUTODIFF_ROW_STACK_H

#include <utility>

#include "keel/graph/autodiff/agreed_attributes.h"
#include "keel/graph/autodiff/body_gradient.h"
#include "keel/graph/autodiff/neutral_fill.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/ir/scopes.h"

namespace keel {

class RowStack {
 public:
  RowStack(const Type& type, CallSite site, AgreedAttributes attributes = {})
      : type_(type),
        stored_{type.dtype == boolean ? u8 : type.dtype, {}},
        site_(site),
        attributes_(std::move(attributes)) {
    stored_.shape = Shape{type.shape.num_elements()};
  }

  // Makes an empty stack of so many rows. Each may be written once.
  Value make(Graph& graph, int64_t rows) const {
    const LabelScope label(graph, label_in(graph));
    return filled(graph, {stored_.dtype, Shape{rows, stored_.shape[0]}}, neutral(), site_);
  }
  // `value` in row `row` (i64 scalar), where `when` (bool scalar) holds or is invalid.
  Value write(Value stack, Value row, Value value, Value when) const {
    const LabelScope label(stack.graph(), label_in(stack.graph()));
    if (type_.dtype == boolean) value = call("cast", {value}, {{"dtype", stored_.dtype}});
    value = call("reshape", {value}, {{"shape", stored_.shape}});
    if (when.valid()) {
      const Value none = filled(stack.graph(), {stored_.dtype, {}}, neutral(), site_);
      value = call("select", {when, value, none}, {});
    }
    return call("scatter_add", {stack, row, value}, {});
  }
  // All rows as one value with a new first axis.
  Value rows(Value stack) const {
    Shape shape{stack.shape()[0]};
    for (const int64_t dim : type_.shape) shape.push_back(dim);
    const Value value = call("reshape", {stack}, {{"shape", shape}});
    return type_.dtype == boolean ? call("cast", {value}, {{"dtype", boolean}}) : value;
  }
  Value read(Value stack, Value row) const {
    const LabelScope label(stack.graph(), label_in(stack.graph()));
    const Value flat = call("gather", {stack, row}, {});
    const Value value = call("reshape", {flat}, {{"shape", type_.shape}});
    return type_.dtype == boolean ? call("cast", {value}, {{"dtype", boolean}}) : value;
  }

 private:
  // A device writes a row of a stack in place, and the host copies all of it in each turn: so it
  // lies on the host only where a device may lack the dtype.
  NodeLabelPtr label_in(const Graph& graph) const {
    const NodeLabelPtr label = attributes_.label_in(graph.label());
    return stored_.dtype == f64 ? label : without_attribute(label, kPlacementAttribute);
  }
  double neutral() const { return neutral_number(stored_.dtype); }
  Value call(const char* op, const Values& inputs, const AttributeList& attributes) const {
    std::vector<Operand> operands;
    for (const Value& v : inputs) operands.emplace_back(v, site_);
    return emit_op(op, operands, attributes, site_);
  }

  Type type_;
  Type stored_;  // of a row
  CallSite site_;
  AgreedAttributes attributes_;  // of what makes, writes and reads it
};

}  // namespace keel

#endif  // KEEL_GRAPH_AUTODIFF_ROW_STACK_H
