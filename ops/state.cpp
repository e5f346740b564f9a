// The sources of a graph: fed inputs, constants, and states kept between steps. Graph::input,
// constant and state build them; they compute nothing, so they have no reference and no gradient of
// their own.
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"

namespace keel {
namespace {

Type only_type(const InferContext& c, const std::vector<Type>& types) {
  if (types.size() != 1) c.fail("type", "one type", std::to_string(types.size()) + " types");
  if (types[0].dtype == DType::kToken) c.fail("type", "a dtype of tensors", to_string(types[0]));
  return types[0];
}

std::vector<Type> infer_input(const InferContext& c) {
  const auto& a = c.as<InputAttributes>();
  if (a.name.empty()) c.fail("name", "a name", "\"\"");
  return {only_type(c, a.type)};
}

std::vector<Type> infer_constant(const InferContext& c) {
  const auto& a = c.as<ConstantAttributes>();
  if (a.value.empty()) c.fail("value", "a tensor", "an empty Tensor");
  return {a.value.type()};
}

std::vector<Type> infer_state(const InferContext& c) {
  const auto& a = c.as<StateAttributes>();
  if (a.name.empty()) c.fail("name", "a name", "\"\"");
  const Type type = only_type(c, a.type);
  if (!type.shape.known()) {
    c.fail("type", "all dimensions known", to_string(type), "give the state a shape without -1");
  }
  if (a.init == "value" && (a.value.empty() || a.value.type() != type)) {
    c.fail("value", to_string(type),
           a.value.empty() ? "an empty Tensor" : to_string(a.value.type()));
  }
  require_initializer(a.init, type.dtype, a.a, a.b);
  return {type};
}

}  // namespace

void register_state(OpTable& table) {
  table.add({.name = "input",
             .summary = "a value fed at each run",
             .attributes = &attributes_schema<InputAttributes>(),
             .infer = infer_input,
             .traits = kSource,
             .role = OpRole::kInput});
  table.add({.name = "constant",
             .summary = "a tensor known when the graph is built",
             .attributes = &attributes_schema<ConstantAttributes>(),
             .infer = infer_constant,
             .traits = kSource,
             .role = OpRole::kConstant});
  table.add({.name = "state",
             .summary = "a value kept between steps, as it was when the step began",
             .attributes = &attributes_schema<StateAttributes>(),
             .infer = infer_state,
             .traits = kSource,
             .role = OpRole::kState});
}

}  // namespace keel
