// Conditionals, loops and calls, whose bodies are functions of the graph's library.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

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
  for (size_t i = first; i < c.inputs(); ++i) values.push_back(c.handed_on(i));
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

constexpr int kMostBodies = 64;

// Says whether a body takes that argument as an array of tensors: ops of arrays use it, there or in
// bodies that it is handed to.
bool takes_array(const onnx::GraphProto& body, size_t argument, int depth = 0) {
  if (argument >= body.inputs.size() || depth == kMostBodies) return false;
  std::set<std::string> names{body.inputs[argument].name};
  for (const onnx::NodeProto& node : body.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (names.count(node.inputs[i]) == 0) continue;
      if (node.op.starts_with("TensorArray")) return true;
      if (node.op == "Identity") names.insert(node.outputs.begin(), node.outputs.end());
      for (const onnx::AttributeProto& attribute : node.attributes) {
        if (attribute.graph == nullptr) continue;
        // The first operand of a conditional is its condition.
        const size_t behind = attribute.name.ends_with("_branch") ? 1 : 0;
        if (i >= behind && takes_array(*attribute.graph, i - behind, depth + 1)) return true;
      }
    }
  }
  return false;
}

// Arrays that have no shape of their elements yet get the one that the body writes.
void shape_arrays(NodeContext& c, const onnx::GraphProto& body, Values& variables,
                  const std::vector<bool>& fixed) {
  std::vector<size_t> open;
  for (size_t i = 0; i < variables.size(); ++i) {
    const Shape& shape = variables[i].shape({});
    if (shape.rank() == 2 && shape[0] >= 0 && shape[1] == 0 && takes_array(body, i))
      open.push_back(i);
  }
  if (open.empty()) return;
  Values here;
  for (const Value& variable : variables) here.push_back(c.here(variable));
  const std::vector<Type> types = c.body_types(body, here, fixed);
  for (const size_t i : open) {
    if (i >= types.size()) continue;
    const Shape& shape = types[i].shape;
    const bool fits = shape.known() && shape.rank() > 0 && shape[0] == variables[i].shape({})[0];
    if (fits && types[i].dtype == variables[i].dtype({}))
      variables[i] = zeros_of(c.graph(), types[i], {});
  }
}

// Marks the arguments that a body hands on as they are: they are the same in each turn.
std::vector<bool> handed_on(const onnx::GraphProto& body) {
  std::map<std::string, size_t> arguments;
  for (size_t i = 0; i < body.inputs.size(); ++i) arguments.emplace(body.inputs[i].name, i);
  for (const onnx::NodeProto& node : body.nodes) {
    if (node.op != "Identity" || node.inputs.size() != 1 || node.outputs.size() != 1) continue;
    if (const auto of = arguments.find(node.inputs[0]); of != arguments.end())
      arguments.emplace(node.outputs[0], of->second);
  }
  std::vector<bool> mask(body.inputs.size());
  for (size_t i = 0; i < body.outputs.size() && i < mask.size(); ++i) {
    const auto of = arguments.find(body.outputs[i].name);
    mask[i] = of != arguments.end() && of->second == i;
  }
  return mask;
}

// An operand that the body hands on is no variable of the loop, so that constants stay constants.
Values while_of(NodeContext& c) {
  const auto condition = c.graph_attribute("cond");
  const auto body = c.graph_attribute("body");
  Values operands = operands_from(c, 0);
  if (operands.empty()) c.refuse("it has no variables");
  std::vector<bool> fixed = handed_on(*body);
  fixed.resize(operands.size());
  shape_arrays(c, *body, operands, fixed);
  if (std::find(fixed.begin(), fixed.end(), false) == fixed.end()) fixed[0] = false;
  std::vector<Operand> first;
  for (size_t i = 0; i < operands.size(); ++i)
    if (!fixed[i]) first.emplace_back(c.here(operands[i]));
  // All operands, with these in the place of those that change.
  const auto with_variables = [&](const Values& variables) {
    Values all = operands;
    for (size_t i = 0, next = 0; i < all.size(); ++i)
      if (!fixed[i]) all[i] = variables[next++];
    return all;
  };
  const Values last = while_loop(
      first,
      [&](const Values& v) {
        const Values results = c.body(*condition, with_variables(v), v[0].graph({}));
        if (results.size() != 1) c.refuse("its condition gives other than one value");
        return as_condition(c, results[0]);
      },
      [&](const Values& v) {
        const Values results = c.body(*body, with_variables(v), v[0].graph({}));
        if (results.size() != operands.size())
          c.refuse("its body gives " + std::to_string(results.size()) + " values for " +
                   std::to_string(operands.size()) + " variables");
        Values next;
        for (size_t i = 0; i < results.size(); ++i)
          if (!fixed[i]) next.push_back(results[i]);
        return next;
      },
      {}, {});
  return with_variables(last);
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
