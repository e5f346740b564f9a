#include "keel/graph/precision/node_form.h"

#include <algorithm>
#include <string>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/ir/scopes.h"

namespace keel {
namespace {

bool can_be_wide(const Node& node) {
  const AttributesSchema* schema = node.op().attributes;
  return schema != nullptr &&
         std::find(schema->names.begin(), schema->names.end(), "wide") != schema->names.end();
}

// Returns the attributes of a product that can keep f32 sums of 16-bit operands, with or without.
Attributes with_wide(const Node& node, bool wide) {
  AttributeList list = node.attributes().list();
  for (auto& [name, value] : list) {
    if (name == "wide") value = wide;
  }
  return node.op().attributes->parse(list);
}

// Returns the lowered operand that inference refuses in the form; nothing where it takes all.
std::optional<size_t> refused_operand(const Node& node, const NodeForm& form) {
  std::vector<Type> types;
  for (size_t i = 0; i < form.inputs.size(); ++i)
    types.push_back({form.inputs[i], node.input(i).shape()});
  const InferContext context(node.op(), types, form.attributes, {}, node.site());
  try {
    static_cast<void>(node.op().infer(context));
  } catch (const Error& error) {
    for (size_t i = 0; i < types.size(); ++i) {
      const bool lowered = types[i].dtype != node.input(i).dtype();
      if (lowered && context.input_name(i) == error.info().argument) return i;
    }
  }
  return std::nullopt;
}

std::vector<DType> dtypes_of(const std::span<const Value> values) {
  std::vector<DType> dtypes;
  for (const Value& v : values) dtypes.push_back(v.dtype());
  return dtypes;
}

Error no_fit(const Node& node, const DtypeRule& rule, const std::string& expected,
             const std::string& got) {
  return Error({.op = full_name(node),
                .argument = "dtypes of " + rule.where,
                .expected = expected,
                .got = got,
                .site = node.site()});
}

void require_fit(const Node& node, const DtypeRule& rule, const char* what,
                 const std::vector<DType>& own, const std::vector<DType>& wanted) {
  if (own.size() != wanted.size()) {
    const std::string expected = own.size() == 1
                                     ? std::string("1 dtype, that of its ") + what
                                     : std::to_string(own.size()) + " dtypes, one for each " + what;
    throw no_fit(node, rule, expected, std::to_string(wanted.size()));
  }
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] == wanted[i] || (is_scaled_float(own[i]) && is_scaled_float(wanted[i]))) continue;
    throw no_fit(node, rule,
                 std::string(name_of(own[i])) + " for its " + what + " " + std::to_string(i),
                 name_of(wanted[i]));
  }
}

}  // namespace

bool has_scaled_float(const Node& node) {
  const auto is_one = [](const auto& of) { return is_scaled_float(of.dtype()); };
  if (std::any_of(node.inputs().begin(), node.inputs().end(), is_one)) return true;
  for (const Type& type : node.types()) {
    if (is_scaled_float(type.dtype)) return true;
  }
  return false;
}

std::optional<NodeForm> node_in(const Node& node, PrecisionForm form, std::optional<DType> low) {
  NodeForm made{dtypes_of(node.inputs()), node.attributes(), node.shared_label()};
  if (form == PrecisionForm::kGraph) return made;
  if (form == PrecisionForm::kHost) {
    if (!node.op().reference) return std::nullopt;
    made.label = placed_on_host(node, "the precision mode");
    return made;
  }
  if (form == PrecisionForm::kWide) {
    if (!can_be_wide(node)) return std::nullopt;
    made.attributes = with_wide(node, true);
  }
  // In f32 there is nothing to widen.
  if (form == PrecisionForm::kF32 && can_be_wide(node)) made.attributes = with_wide(node, false);
  bool changes = false;
  for (DType& dtype : made.inputs) {
    const bool raised = form == PrecisionForm::kF32 && (dtype == f16 || dtype == bf16);
    const bool lowered = form != PrecisionForm::kF32 && dtype == f32;
    if (!raised && !lowered) continue;
    dtype = raised ? f32 : low.value();
    changes = true;
  }
  if (!changes) return std::nullopt;
  // Sums and statistics beside 16-bit operands are f32: what must be so by inference stays so.
  while (const auto refused = refused_operand(node, made))
    made.inputs[*refused] = node.input(*refused).dtype();
  return made;
}

std::optional<NodeForm> widened(const Node& node, DType low) {
  const auto is_low = [&](const Value& v) { return v.dtype() == low; };
  if (!can_be_wide(node) || std::none_of(node.inputs().begin(), node.inputs().end(), is_low))
    return std::nullopt;
  return NodeForm{dtypes_of(node.inputs()), with_wide(node, true), node.shared_label()};
}

NodeForm node_by(const Node& node, const DtypeRule& rule) {
  std::vector<DType> results;
  for (const Type& type : node.types()) results.push_back(type.dtype);
  require_fit(node, rule, "input", dtypes_of(node.inputs()), rule.inputs);
  require_fit(node, rule, "output", results, rule.outputs);
  const bool sums_f32 =
      can_be_wide(node) && rule.outputs[0] == f32 && size_of(rule.inputs[0]) < size_of(f32);
  return {rule.inputs, can_be_wide(node) ? with_wide(node, sums_f32) : node.attributes(),
          node.shared_label(), rule.outputs};
}

Support supports_form(const Node& node, const NodeForm& form, const SupportsFunction& supports) {
  Graph scratch(*node.op().table);
  Values inputs;
  try {
    for (size_t i = 0; i < form.inputs.size(); ++i) {
      const Value& own = node.input(i);
      const Value v = scratch.input("x" + std::to_string(i), own.dtype(), own.shape(), node.site());
      inputs.push_back(cast_to(scratch, v, form.inputs[i], node.site()));
      if (inputs.back() == v) continue;
      if (Support s = supports(inputs.back().node()); !s.supported) return s;
    }
    const Node& made = scratch.add(node.op(), inputs, form.attributes, node.site());
    scratch.relabel(made, form.label);
    if (Support s = supports(made); !s.supported) return s;
    for (size_t i = 0; i < form.outputs.size(); ++i) {
      const Value v = cast_to(scratch, made.output(i), form.outputs[i], node.site());
      if (v == made.output(i)) continue;
      if (Support s = supports(v.node()); !s.supported) return s;
    }
  } catch (const Error& error) {
    return {false, error.what()};
  }
  return {true, ""};
}

Value cast_to(Graph& graph, Value value, DType dtype, CallSite site) {
  if (value.dtype() == dtype) return value;
  const OpDef& op = graph.ops().at("cast");
  return graph.add(op, {value}, op.attributes->parse({{"dtype", dtype}}), site).output();
}

}  // namespace keel
