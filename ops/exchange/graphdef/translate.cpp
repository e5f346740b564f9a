#include "keel/ops/exchange/graphdef/translate.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/core/base/read_budget.h"
#include "keel/core/tensor/tensor.h"
#include "keel/ops/exchange/graphdef/file/values.h"
#include "keel/ops/exchange/graphdef/node_order.h"

namespace keel::graphdef {
namespace {

using Kind = AttrValue::Kind;
using onnx::AttributeProto;
using onnx::AttributeType;

constexpr size_t kMostCalls = 64;

// Attributes that say how a node is run or what it is called by, and nothing of what it gives.
// Nodes of one shared_name are one node by now (shared_variables.h).
bool says_nothing_of_results(const std::string& name) {
  static constexpr const char* kNames[] = {"use_locking",
                                           "container",
                                           "shared_name",
                                           "use_cudnn_on_gpu",
                                           "validate_shape",
                                           "validate_indices",
                                           "allowed_devices",
                                           "debug_name",
                                           "swap_memory",
                                           "frame_name",
                                           "parallel_iterations",
                                           "output_shapes",
                                           "config",
                                           "config_proto",
                                           "executor_type",
                                           "is_stateless",
                                           "is_constant",
                                           "N",
                                           "num_lower_iterations"};
  return name.starts_with('_') || std::any_of(std::begin(kNames), std::end(kNames),
                                              [&](const char* known) { return name == known; });
}

class Translating {
 public:
  Translating(const Selection& selection, const OpRules& rules)
      : selection_(selection),
        rules_(rules),
        budget_(static_cast<uint64_t>(
            read_limit(selection.graph.bytes == nullptr ? 0 : selection.graph.bytes->size(), 0))) {}

  onnx::ModelProto run() {
    onnx::ModelProto model;
    model.source = selection_.graph.source;
    model.opsets[""] = 0;  // its ops have no numbered sets
    model.bytes = selection_.graph.bytes;
    const std::vector<NodeDef>& nodes = selection_.graph.nodes;
    const std::set<std::string> weights = weights_of(nodes);
    const Counts counts = counts_of(nodes, selection_.outputs);
    for (const size_t i : node_order(nodes, model.source)) {
      if (weights.count(nodes[i].name) != 0) {
        model.graph.initializers.push_back(tensor_of(nodes[i].attributes.at("value"), nodes[i]));
        continue;
      }
      model.graph.nodes.push_back(node_of(nodes[i], counts));
    }
    model.graph.inputs = selection_.inputs;
    for (const std::string& output : selection_.outputs) {
      onnx::ValueInfo info;
      info.name = output;
      model.graph.outputs.push_back(std::move(info));
    }
    return model;
  }

 private:
  // How many values of each node are read.
  using Counts = std::unordered_map<std::string, size_t>;

  ErrorInfo error_of(const NodeDef& node, const std::string& message) const {
    return {.op = selection_.graph.source,
            .argument = "node '" + printable(node.name) + "'",
            .message = message};
  }
  [[noreturn]] void fail(const NodeDef& node, const std::string& message) const {
    throw Error(error_of(node, message));
  }

  static Counts counts_of(const std::vector<NodeDef>& nodes,
                          const std::vector<std::string>& results) {
    Counts counts;
    const auto count = [&](const std::string& name) {
      const ValueName value = parse_value(name);
      if (!value.control) counts[value.node] = std::max(counts[value.node], value.output + 1);
    };
    for (const NodeDef& node : nodes)
      for (const std::string& input : node.inputs) count(input);
    for (const std::string& result : results) count(result);
    return counts;
  }

  // ---- weights of frozen graphs

  // Constants of floats that rules take as weights, perhaps behind nodes that hand them on.
  std::set<std::string> weights_of(const std::vector<NodeDef>& nodes) {
    Origins origins(nodes);
    std::set<std::string> weights;
    for (const NodeDef& node : nodes) {
      if (selection_.only_initial.count(node.name) != 0) continue;
      for (const size_t operand : weight_operands(node)) {
        if (operand >= node.inputs.size()) continue;
        const NodeDef* source = origins.of(parse_value(node.inputs[operand]).node);
        if (source != nullptr && is_float_constant(*source)) weights.insert(source->name);
      }
    }
    return weights;
  }

  // Returns the operands that its rule takes as weights, or that its bodies hand to such rules.
  std::vector<size_t> weight_operands(const NodeDef& node) {
    const OpRule* rule = rules_.find(node.op);
    std::vector<size_t> operands;
    if (rule != nullptr) operands = rule->weights;
    for (const auto& entry : node.attributes) {
      if (entry.second.kind != Kind::kFunction) continue;
      const std::vector<size_t>& of_body = weight_arguments(entry.second.strings[0]);
      // The first operand of a conditional is its condition.
      for (const size_t argument : of_body)
        operands.push_back(argument + (entry.first.ends_with("_branch") ? 1 : 0));
    }
    return operands;
  }

  const std::vector<size_t>& weight_arguments(const std::string& name) {
    // Bodies that call themselves, or each other too deep, are refused later.
    const auto [entry, is_new] = weight_arguments_.emplace(name, std::vector<size_t>());
    const auto found = selection_.graph.bodies.find(name);
    if (!is_new || found == selection_.graph.bodies.end() || depth_ == kMostCalls)
      return entry->second;
    ++depth_;
    const Body& body = found->second;
    std::unordered_map<std::string, size_t> index;
    for (size_t i = 0; i < body.arguments.size(); ++i) index.emplace(body.arguments[i], i);
    Origins origins(body.nodes, &body.arguments);
    std::set<size_t> arguments;
    for (const NodeDef& node : body.nodes)
      for (const size_t operand : weight_operands(node)) {
        if (operand >= node.inputs.size()) continue;
        const std::string* argument = origins.argument_of(parse_value(node.inputs[operand]).node);
        if (argument != nullptr) arguments.insert(index.at(*argument));
      }
    --depth_;
    return weight_arguments_[name] = {arguments.begin(), arguments.end()};
  }

  // Single numbers, such as the epsilon that is added to a variance, are no weights, nor are
  // constants without elements, such as the statistics that a norm in training does not read.
  static bool is_float_constant(const NodeDef& node) {
    const auto value = node.attributes.find("value");
    if (node.op != "Const" || value == node.attributes.end()) return false;
    if (value->second.kind != Kind::kTensor) return false;
    const TensorProto& tensor = *value->second.tensors[0];
    const auto dtype = onnx::dtype_of(onnx_type(tensor.type));
    return dtype && is_float(*dtype) && tensor.shape && !tensor.shape->empty() &&
           std::count(tensor.shape->begin(), tensor.shape->end(), 0) == 0;
  }

  // ---- nodes

  onnx::NodeProto node_of(const NodeDef& node, const Counts& counts) {
    onnx::NodeProto made;
    made.name = node.name;
    made.op = node.op;
    made.place = place_of(node);
    for (const std::string& input : node.inputs) {
      const ValueName value = parse_value(input);
      if (!value.control) made.inputs.push_back(value_name(value.node, value.output));
    }
    const OpRule* rule = rules_.find(node.op);
    const auto read = counts.find(node.name);
    const bool gives_nothing = rule != nullptr && rule->gives_nothing;
    size_t count = read == counts.end() ? 0 : read->second;
    if (count == 0 && !gives_nothing) count = 1;
    take(count * sizeof(std::string));
    for (size_t i = 0; i < count; ++i) made.outputs.push_back(value_name(node.name, i));
    for (const auto& entry : node.attributes) {
      if (entry.second.kind == Kind::kNone || says_nothing_of_results(entry.first)) continue;
      if (entry.second.kind == Kind::kPlaceholder) {
        if (entry.first == "T") continue;  // its operands say it, too
        fail(node, "takes its attribute " + printable(entry.first, 200) + " from a call");
      }
      made.attributes.push_back(attribute_of(entry.first, entry.second, node));
    }
    if (selection_.untrained.count(node.name) != 0) made.attributes.push_back(mark(kUntrained));
    if (selection_.only_initial.count(node.name) != 0) made.attributes.push_back(mark(kInitial));
    if (const auto entry = selection_.assigned.find(node.name); entry != selection_.assigned.end())
      made.attributes.push_back(names_of_variables(entry->second));
    return made;
  }

  // A node that was made of control flow lies where the first one inside of it does.
  int place_of(const NodeDef& node) const {
    if (const auto place = selection_.places.find(node.name); place != selection_.places.end())
      return place->second;
    for (const auto& entry : node.attributes) {
      if (entry.second.kind != Kind::kFunction) continue;
      const auto body = selection_.graph.bodies.find(entry.second.strings[0]);
      if (body == selection_.graph.bodies.end()) continue;
      for (const NodeDef& inner : body->second.nodes)
        if (const auto place = selection_.places.find(inner.name); place != selection_.places.end())
          return place->second;
    }
    return 0;
  }

  static AttributeProto mark(const char* name) {
    AttributeProto attribute;
    attribute.name = name;
    attribute.type = AttributeType::kInt;
    attribute.i = 1;
    attribute.needs_no_rule = true;
    return attribute;
  }

  static AttributeProto names_of_variables(const std::vector<std::string>& variables) {
    AttributeProto attribute = mark(kVariables);
    attribute.type = AttributeType::kStrings;
    attribute.strings = variables;
    return attribute;
  }

  AttributeProto attribute_of(const std::string& name, const AttrValue& value,
                              const NodeDef& node) {
    AttributeProto attribute;
    attribute.name = name;
    switch (value.kind) {
      case Kind::kString:
        attribute.type = AttributeType::kString;
        attribute.s = value.strings[0];
        break;
      case Kind::kInt:
      case Kind::kBool:
        attribute.type = AttributeType::kInt;
        attribute.i = value.ints[0];
        break;
      case Kind::kFloat:
        attribute.type = AttributeType::kFloat;
        attribute.f = value.floats.empty() ? 0 : value.floats[0];
        break;
      case Kind::kType:
        attribute.type = AttributeType::kInt;
        attribute.i = static_cast<int64_t>(onnx_type(static_cast<DataType>(value.ints[0])));
        // Most say the dtype that the operands have.
        attribute.needs_no_rule = true;
        break;
      case Kind::kShape:
        attribute.needs_no_rule = !value.shapes[0];
        if (value.shapes[0]) {
          attribute.type = AttributeType::kInts;
          attribute.ints = *value.shapes[0];
        }
        break;
      case Kind::kTensor:
        attribute.type = AttributeType::kTensor;
        attribute.tensor = std::make_shared<const onnx::TensorProto>(tensor_of(value, node));
        break;
      case Kind::kFunction:
        attribute.type = AttributeType::kGraph;
        attribute.graph = body_of(value.strings[0], node);
        break;
      default:
        add_list(value, attribute);
        break;
    }
    return attribute;
  }

  static void add_list(const AttrValue& value, AttributeProto& attribute) {
    attribute.needs_no_rule =
        value.types || (value.ints.empty() && value.floats.empty() && value.strings.empty());
    attribute.ints = value.ints;
    attribute.floats = value.floats;
    attribute.strings = value.strings;
    attribute.type = !value.strings.empty()  ? AttributeType::kStrings
                     : !value.floats.empty() ? AttributeType::kFloats
                                             : AttributeType::kInts;
  }

  // ---- tensors

  // The last element of a list stands for all that follow.
  template <class T>
  static std::vector<T> filled(const std::vector<T>& values, size_t count) {
    std::vector<T> all(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(
                                                            std::min(values.size(), count)));
    all.resize(count, values.empty() ? T{} : values.back());
    return all;
  }

  onnx::TensorProto tensor_of(const AttrValue& value, const NodeDef& node) {
    if (value.kind != Kind::kTensor) fail(node, "its value is no tensor");
    const TensorProto& tensor = *value.tensors[0];
    onnx::TensorProto made;
    made.name = node.name;
    made.type = onnx_type(tensor.type);
    const auto dtype = onnx::dtype_of(made.type);
    if (!dtype) return made;  // its node is refused for it
    if (!tensor.shape) fail(node, "its value has no shape");
    made.dims = *tensor.shape;
    if (made.dims.size() > Shape::kMaxRank) return made;
    for (const int64_t dim : made.dims)
      if (dim < 0) fail(node, "its value has a dimension of " + std::to_string(dim));
    const size_t count = count_of(made.dims, *dtype, node);
    const size_t bytes = count * size_of(*dtype);
    if (tensor.content) {
      made.raw = tensor.content;
      return made;
    }
    take(bytes);
    if (*dtype == f32)
      made.floats = filled(tensor.floats, count);
    else if (*dtype == f64)
      made.doubles = filled(tensor.doubles, count);
    else
      made.integers = filled(tensor.integers, count);
    return made;
  }

  // How many elements a value has, the bytes of which can be counted.
  size_t count_of(const std::vector<int64_t>& dims, DType dtype, const NodeDef& node) const {
    try {
      int64_t bytes = static_cast<int64_t>(size_of(dtype));
      for (const int64_t dim : dims) bytes = checked_mul(bytes, dim);
      return static_cast<size_t>(bytes) / size_of(dtype);
    } catch (const Error&) {
      fail(node, "its value has more bytes than 64 bits can count");
    }
  }

  void take(uint64_t bytes) {
    if (bytes > budget_ - taken_)
      throw over_read_budget(selection_.graph.source, "tensors and values", budget_);
    taken_ += bytes;
  }

  // ---- functions

  // A step's updates are those of the graph itself: one in a function would take effect whether or
  // not it runs, and in no order with the reads around it.
  void require_no_assignment(const NodeDef& node) const {
    const OpRule* rule = rules_.find(node.op);
    if (rule != nullptr && !rule->assigns.empty())
      throw AssignsInside(error_of(node, kAssignsInside));
  }

  std::shared_ptr<const onnx::GraphProto> body_of(const std::string& name, const NodeDef& node) {
    if (const auto made = bodies_.find(name); made != bodies_.end()) return made->second;
    const auto entry = selection_.graph.bodies.find(name);
    if (entry == selection_.graph.bodies.end())
      fail(node, "calls the function '" + printable(name) + "', which is not in the graph");
    if (std::find(calls_.begin(), calls_.end(), name) != calls_.end())
      fail(node, "the function '" + printable(name) + "' calls itself");
    if (calls_.size() >= kMostCalls)
      fail(node, "functions call each other deeper than " + std::to_string(kMostCalls) + " levels");
    calls_.push_back(name);
    const Body& body = entry->second;
    auto graph = std::make_shared<onnx::GraphProto>();
    graph->name = name;
    const Counts counts = counts_of(body.nodes, body.results);
    for (const size_t i : node_order(body.nodes, selection_.graph.source)) {
      require_no_assignment(body.nodes[i]);
      graph->nodes.push_back(node_of(body.nodes[i], counts));
    }
    for (const std::string& argument : body.arguments) {
      graph->inputs.emplace_back();
      graph->inputs.back().name = argument;
    }
    for (const std::string& result : body.results) {
      const ValueName value = parse_value(result);
      graph->outputs.emplace_back();
      graph->outputs.back().name = value_name(value.node, value.output);
    }
    calls_.pop_back();
    return bodies_.emplace(name, std::move(graph)).first->second;
  }

  const Selection& selection_;
  const OpRules& rules_;
  uint64_t budget_;
  uint64_t taken_ = 0;
  std::map<std::string, std::vector<size_t>> weight_arguments_;  // of bodies
  size_t depth_ = 0;
  std::vector<std::string> calls_;  // functions that are being translated, from the outermost on
  std::map<std::string, std::shared_ptr<const onnx::GraphProto>> bodies_;
};

}  // namespace

onnx::ModelProto translate(const Selection& selection, const OpRules& rules) {
  return Translating(selection, rules).run();
}

}  // namespace keel::graphdef
