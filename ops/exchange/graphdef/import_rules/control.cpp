// Conditionals, loops and calls, whose bodies are functions of the graph's library.
#include <algorithm>

#include "keel/graph/control/control_flow.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/onnx/import_branches.h"
#include "keel/ops/shape.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;

// A condition may be a number: what is not 0 holds.
Value as_condition(NodeContext& c, const Value& x) {
  if (x.shape({}).rank() != 0) c.refuse("its condition is no scalar");
  return x.dtype({}) == boolean ? x : not_equal(x, 0, {});
}

Values operands_from(NodeContext& c, size_t first) {
  Values values;
  for (size_t i = first; i < c.inputs(); ++i) values.push_back(c.in(i));
  return values;
}

// Where the condition is known at import only one side of it is imported.
Values if_of(NodeContext& c) {
  const auto then_branch = c.graph_attribute("then_branch");
  const auto else_branch = c.graph_attribute("else_branch");
  const Values operands = operands_from(c, 1);
  if (const std::optional<Tensor> known = c.known(0)) {
    if (known->num_elements() != 1) c.refuse("its condition is no scalar");
    return c.body(known->at(0) != 0 ? *then_branch : *else_branch, operands, c.place());
  }
  return onnx::conditional(c, as_condition(c, c.in(0)), operands, *then_branch, *else_branch);
}

// Arrays that have no shape of their elements yet get the one that the body writes.
void shape_arrays(NodeContext& c, const onnx::GraphProto& body, Values& variables) {
  const auto is_open = [](const Value& v) {
    return v.shape({}).rank() == 2 && v.shape({})[0] >= 0 && v.shape({})[1] == 0;
  };
  if (std::none_of(variables.begin(), variables.end(), is_open)) return;
  Values here;
  for (const Value& variable : variables) here.push_back(c.here(variable));
  const std::vector<Type> types = c.body_types(body, here);
  for (size_t i = 0; i < variables.size() && i < types.size(); ++i) {
    const Shape& shape = types[i].shape;
    const bool fits = shape.known() && shape.rank() > 0 && shape[0] == variables[i].shape({})[0];
    if (is_open(variables[i]) && fits && types[i].dtype == variables[i].dtype({}))
      variables[i] = zeros_of(c.graph(), types[i], {});
  }
}

Values while_of(NodeContext& c) {
  const auto condition = c.graph_attribute("cond");
  const auto body = c.graph_attribute("body");
  Values variables = operands_from(c, 0);
  shape_arrays(c, *body, variables);
  if (variables.empty()) c.refuse("it has no variables");
  std::vector<Operand> first;
  for (const Value& variable : variables) first.emplace_back(c.here(variable));
  return while_loop(
      first,
      [&](const Values& v) {
        const Values results = c.body(*condition, v, v[0].graph({}));
        if (results.size() != 1) c.refuse("its condition gives other than one value");
        return as_condition(c, results[0]);
      },
      [&](const Values& v) { return c.body(*body, v, v[0].graph({})); }, {}, {});
}

Values call(NodeContext& c) {
  return c.body(*c.graph_attribute("f"), operands_from(c, 0), c.place());
}

}  // namespace

void register_graphdef_control(OpRules& rules) {
  for (const char* op : {"If", "StatelessIf"}) rules.add(op, if_of);
  for (const char* op : {"While", "StatelessWhile"}) rules.add(op, while_of);
  for (const char* op : {"PartitionedCall", "StatefulPartitionedCall"}) rules.add(op, call);
}

}  // namespace keel::graphdef
