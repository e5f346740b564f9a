#include "keel/ops/exchange/graphdef/selection.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/ops/exchange/graphdef/control_flow/bodies.h"
#include "keel/ops/exchange/graphdef/control_flow/graph.h"
#include "keel/ops/exchange/graphdef/file/values.h"
#include "keel/ops/exchange/graphdef/initial_values.h"
#include "keel/ops/exchange/graphdef/node_order.h"
#include "keel/ops/exchange/graphdef/result_types.h"
#include "keel/ops/exchange/graphdef/shared_variables.h"

namespace keel::graphdef {
namespace {

using Kind = AttrValue::Kind;

constexpr size_t kMostListed = 12;

[[noreturn]] void fail(const GraphDef& graph, const std::string& argument,
                       const std::string& message, const std::string& fix = "") {
  throw Error({.op = graph.source,
               .argument = argument,
               .message = message,
               .fix = fix,
               .kind = ErrorKind::kInvalidArgument});
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMostListed; ++i)
    text += (i == 0 ? "" : ", ") + printable(names[i], 200);
  return text + (names.size() > kMostListed ? " ..." : "");
}

// Which values of a node come from outside of the graph, and what it says of them.
struct OutsideOp {
  const char* op;
  const char* type;    // the attribute of the dtype, or of the list of dtypes
  const char* shape;   // likewise of shapes; null where the op says none
  bool only_if_given;  // it has a value of its own
};
constexpr OutsideOp kOutsideOps[] = {
    {"Placeholder", "dtype", "shape", false},
    {"PlaceholderV2", "dtype", "shape", false},
    {"PlaceholderWithDefault", "dtype", "shape", true},
    {"IteratorGetNext", "output_types", "output_shapes", false},
    {"IteratorGetNextSync", "output_types", "output_shapes", false},
    {"QueueDequeue", "component_types", nullptr, false},
    {"QueueDequeueV2", "component_types", nullptr, false},
    {"QueueDequeueMany", "component_types", nullptr, false},
    {"QueueDequeueManyV2", "component_types", nullptr, false},
    {"QueueDequeueUpTo", "component_types", nullptr, false},
    {"QueueDequeueUpToV2", "component_types", nullptr, false},
};

const OutsideOp* outside_op(const NodeDef& node) {
  for (const OutsideOp& outside : kOutsideOps)
    if (node.op == outside.op) return &outside;
  return nullptr;
}

class Selecting {
 public:
  Selecting(const GraphDef& graph, const ImportOptions& options, const OpRules& rules)
      : graph_(graph), options_(options), rules_(rules) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!index_.emplace(graph.nodes[i].name, i).second)
        fail(graph, "node '" + printable(graph.nodes[i].name) + "'", "two nodes have this name");
    }
    for (const GivenInput& input : options.inputs) {
      const ValueName value = named_by_user("--inputs", input.value);
      if (!given_.emplace(value_name(value.node, value.output), &input).second)
        fail(graph, "--inputs", "'" + printable(input.value) + "' is given twice");
    }
  }

  Selection run() {
    choose_outputs();
    find_behind_assignments();
    for (const std::string& output : outputs_) {
      const ValueName value = parse_value(output);
      if (!is_given(value_name(value.node, value.output))) need(value.node, output);
    }
    reach();
    const std::unordered_set<size_t> for_outputs = reached_;
    add_initial_values();
    Selection selection;
    collect(for_outputs, selection);
    selection.graph.bodies = graph_.bodies;
    remove_uncalled_bodies(selection.graph);
    separate_initial_values(selection, rules_);
    selection.assigned = order_variables(selection.graph.nodes, rules_, graph_.source);
    return selection;
  }

 private:
  const NodeDef* find(const std::string& name) const {
    const auto entry = index_.find(name);
    return entry == index_.end() ? nullptr : &graph_.nodes[entry->second];
  }

  [[noreturn]] void refuse_name(const char* flag, const std::string& name) const {
    std::vector<std::string> candidates;
    for (const NodeDef& node : graph_.nodes)
      if (outside_op(node) != nullptr) candidates.push_back(node.name);
    const std::vector<std::string> ends = values_nobody_reads();
    candidates.insert(candidates.end(), ends.begin(), ends.end());
    fail(graph_, std::string(flag) + " '" + printable(name) + "'", "there is no such node",
         "inputs and outputs of it may be: " + list_of(candidates));
  }

  ValueName named_by_user(const char* flag, const std::string& name) const {
    ValueName value = parse_value(name);
    if (value.control)
      fail(graph_, std::string(flag) + " '" + printable(name) + "'",
           "it names what waits for a node, not a value",
           "name the node: " + printable(value.node));
    if (find(value.node) == nullptr) refuse_name(flag, name);
    require_output(value, std::string(flag) + " '" + printable(name) + "'");
    return value;
  }

  // The rules know how many outputs other nodes have.
  void require_output(const ValueName& value, const std::string& by) const {
    const NodeDef* node = find(value.node);
    const OutsideOp* outside = node == nullptr || value.control ? nullptr : outside_op(*node);
    if (outside == nullptr) return;
    const AttrValue* types = find_attribute(*node, outside->type, Kind::kList);
    const size_t count = types == nullptr ? 1 : types->ints.size();
    if (value.output < count) return;
    fail(graph_, by,
         "there is no output " + std::to_string(value.output) + " of '" + printable(value.node) +
             "', which has " + std::to_string(count) + (count == 1 ? " output" : " outputs"));
  }

  bool is_given(const std::string& value) const { return given_.count(value) != 0; }

  // ---- outputs

  std::vector<std::string> values_nobody_reads() const {
    std::unordered_set<std::string> read;
    for (const NodeDef& node : graph_.nodes)
      for (const std::string& input : node.inputs) read.insert(parse_value(input).node);
    std::vector<std::string> values;
    for (const NodeDef& node : graph_.nodes) {
      const OpRule* rule = rules_.find(node.op);
      const bool has_value = rule == nullptr || !rule->gives_nothing;
      if (read.count(node.name) == 0 && has_value && outside_op(node) == nullptr)
        values.push_back(node.name);
    }
    return values;
  }

  [[noreturn]] void ask_for_outputs(const std::string& message, const std::string& fix) const {
    throw OutputsAreOpen({.op = graph_.source,
                          .argument = "--outputs",
                          .message = message,
                          .fix = fix,
                          .kind = ErrorKind::kInvalidArgument});
  }

  void choose_outputs() {
    for (const std::string& output : options_.outputs) {
      const ValueName value = named_by_user("--outputs", output);
      outputs_.push_back(value_name(value.node, value.output));
    }
    if (!outputs_.empty()) return;
    outputs_ = values_nobody_reads();
    for (const NodeDef& node : graph_.nodes) {
      const OpRule* rule = rules_.find(node.op);
      if (rule != nullptr && !rule->assigns.empty())
        ask_for_outputs("the graph has variables, and does not say which of its values are meant",
                        "--outputs NAME,...; no node reads: " + list_of(outputs_));
    }
    if (outputs_.empty()) ask_for_outputs("every value of the graph is read by a node", "");
  }

  // ---- what they need

  void need(const std::string& node, const std::string& by) {
    const auto entry = index_.find(node);
    if (entry == index_.end())
      fail(graph_, "node '" + printable(by) + "'",
           "reads '" + printable(node) + "', which is not in the graph");
    if (reached_.insert(entry->second).second) open_.push_back(entry->second);
  }

  bool dropped(const NodeDef& node) const {
    const OpRule* rule = rules_.find(node.op);
    return options_.drop_updates && rule != nullptr && !rule->assigns.empty();
  }

  // The inputs of a node that its rule takes any notice of.
  std::vector<std::string> inputs_of(const NodeDef& node) const {
    const OpRule* rule = rules_.find(node.op);
    if (rule == nullptr || rule->most_operands == SIZE_MAX) return node.inputs;
    std::vector<std::string> inputs;
    size_t operands = 0;
    for (const std::string& input : node.inputs)
      if (parse_value(input).control || operands++ < rule->most_operands) inputs.push_back(input);
    return inputs;
  }

  // ---- what is waited for

  bool assigns(const NodeDef& node) const {
    const OpRule* rule = rules_.find(node.op);
    return rule != nullptr && !rule->assigns.empty();
  }

  static bool calls_bodies(const NodeDef& node) {
    return std::any_of(node.attributes.begin(), node.attributes.end(),
                       [](const auto& entry) { return entry.second.kind == Kind::kFunction; });
  }

  // The nodes of the inputs that come from the graph. What is given comes from no node.
  std::vector<size_t> nodes_before(const NodeDef& node) const {
    std::vector<size_t> before;
    const OutsideOp* outside = outside_op(node);
    if (outside != nullptr && (!outside->only_if_given || is_given(node.name))) return before;
    for (const std::string& input : node.inputs) {
      const ValueName value = parse_value(input);
      const auto entry = index_.find(value.node);
      if (entry == index_.end()) continue;
      if (is_given(value.control ? value.node : value_name(value.node, value.output))) continue;
      before.push_back(entry->second);
    }
    return before;
  }

  // Finds the nodes that assign and those that come behind them. A body that assigns makes every
  // call count: its import refuses it by name.
  void find_behind_assignments() {
    behind_.assign(graph_.nodes.size(), false);
    const bool has_partial =
        std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const NodeDef& node) {
          const OpRule* rule = rules_.find(node.op);
          return rule != nullptr && rule->most_operands != SIZE_MAX;
        });
    if (!has_partial || options_.drop_updates) return;
    const bool bodies_assign =
        std::any_of(graph_.bodies.begin(), graph_.bodies.end(), [&](const auto& body) {
          return std::any_of(body.second.nodes.begin(), body.second.nodes.end(),
                             [&](const NodeDef& node) { return assigns(node); });
        });
    std::vector<std::vector<size_t>> users(graph_.nodes.size());
    std::vector<size_t> open;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeDef& node = graph_.nodes[i];
      for (const size_t before : nodes_before(node)) users[before].push_back(i);
      if (!assigns(node) && !(bodies_assign && calls_bodies(node))) continue;
      behind_[i] = true;
      open.push_back(i);
    }
    while (!open.empty()) {
      const size_t node = open.back();
      open.pop_back();
      for (const size_t user : users[node]) {
        if (behind_[user]) continue;
        behind_[user] = true;
        open.push_back(user);
      }
    }
  }

  // The nodes of operands that a rule leaves out, which its node waits for because they assign or
  // come behind what does.
  std::vector<size_t> waits_for(const NodeDef& node) const {
    const OpRule* rule = rules_.find(node.op);
    if (rule == nullptr || rule->most_operands == SIZE_MAX) return {};
    NodeDef left_out;
    size_t operands = 0;
    for (const std::string& input : node.inputs)
      if (!parse_value(input).control && operands++ >= rule->most_operands)
        left_out.inputs.push_back(input);
    std::vector<size_t> nodes = nodes_before(left_out);
    std::erase_if(nodes, [&](size_t i) { return !behind_[i]; });
    return nodes;
  }

  // A node that is only waited for stands for its order alone, so that it may be one of strings.
  // Nodes that assign are needed themselves, and so are those that make branches and loops.
  void wait_for(size_t i) {
    const NodeDef& node = graph_.nodes[i];
    if (assigns(node) || calls_bodies(node) || flow_kind(node.op) != FlowKind::kPlain)
      need(node.name, node.name);
    else if (waited_.insert(i).second)
      open_waited_.push_back(i);
  }

  // Values that are given, and those of ops that take them from outside, need nothing.
  void reach() {
    while (!open_.empty() || !open_waited_.empty()) {
      if (open_.empty()) {
        const NodeDef& waited = graph_.nodes[open_waited_.back()];
        open_waited_.pop_back();
        for (const size_t before : nodes_before(waited))
          if (behind_[before]) wait_for(before);
        continue;
      }
      const NodeDef& node = graph_.nodes[open_.back()];
      open_.pop_back();
      for (const size_t before : waits_for(node)) wait_for(before);
      const OutsideOp* outside = outside_op(node);
      if (outside != nullptr && (!outside->only_if_given || is_given(node.name))) continue;
      for (const std::string& input : inputs_of(node)) {
        const ValueName value = parse_value(input);
        require_output(value, "node '" + printable(node.name) + "'");
        if (!value.control && is_given(value_name(value.node, value.output))) {
          given_read_.insert(value_name(value.node, value.output));
          continue;
        }
        if (const NodeDef* before = find(value.node);
            value.control && before != nullptr && (dropped(*before) || is_given(before->name)))
          continue;
        need(value.node, node.name);
      }
    }
  }

  // ---- variables

  // The nodes that give variables their first values, which no output needs.
  void add_initial_values() {
    std::unordered_map<std::string, const NodeDef*> initializers;
    Origins origins(graph_.nodes);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeDef& node = graph_.nodes[i];
      const OpRule* rule = rules_.find(node.op);
      if (rule == nullptr || rule->assigns.empty() || node.inputs.size() < 2 ||
          reached_.count(i) != 0)
        continue;
      if (node.op != "Assign" && node.op != "AssignVariableOp") continue;
      const NodeDef* variable = origins.of(parse_value(node.inputs[0]).node);
      const NodeDef* value = origins.of(parse_value(node.inputs[1]).node);
      // A node that restores a checkpoint assigns values that are in no graph.
      if (variable == nullptr || value == nullptr || value->op.starts_with("Restore")) continue;
      const NodeDef*& initializer = initializers[variable->name];
      if (initializer == nullptr || node.name == variable->name + "/Assign") initializer = &node;
    }
    for (const auto& entry : initializers) initial_[entry.first] = entry.second->inputs[1];
    for (const VariableDef& variable : graph_.variables)
      if (!variable.initial_value.empty())
        initial_[parse_value(variable.name).node] = variable.initial_value;
    std::erase_if(initial_, [&](const auto& entry) {
      const NodeDef* node = find(entry.first);
      const OpRule* rule = node == nullptr ? nullptr : rules_.find(node->op);
      return rule == nullptr || !rule->variable;
    });
    // An initial value may be computed from that of another variable.
    for (size_t known = 0; known != reached_.size();) {
      known = reached_.size();
      for (const auto& entry : initial_)
        if (reached_.count(index_.at(entry.first)) != 0)
          need(parse_value(entry.second).node, entry.first);
      reach();
    }
    std::erase_if(initial_,
                  [&](const auto& entry) { return reached_.count(index_.at(entry.first)) == 0; });
  }

  // ---- the result

  onnx::ValueInfo described(const std::string& name, DataType type, const ShapeProto& shape) const {
    onnx::ValueInfo info;
    info.name = name;
    info.kind = onnx::ValueInfo::Kind::kTensor;
    info.type = onnx_type(type);
    if (!shape) return info;
    info.shape.emplace();
    for (const int64_t size : *shape) {
      onnx::Dimension dimension{size, ""};
      // An unknown first dimension is the batch, the same for all inputs.
      if (size < 0 && info.shape->empty()) dimension.name = "batch";
      info.shape->push_back(dimension);
    }
    return info;
  }

  onnx::ValueInfo outside_value(const NodeDef& node, size_t output, const GivenInput* given) const {
    DataType type = DataType::kInvalid;
    ShapeProto shape;
    if (const OutsideOp* outside = outside_op(node)) {
      for (const Kind kind : {Kind::kType, Kind::kList})
        if (const AttrValue* types = find_attribute(node, outside->type, kind))
          if (output < types->ints.size()) type = static_cast<DataType>(types->ints[output]);
      for (const Kind kind : {Kind::kShape, Kind::kList})
        if (outside->shape != nullptr)
          if (const AttrValue* shapes = find_attribute(node, outside->shape, kind))
            if (output < shapes->shapes.size()) shape = shapes->shapes[output];
    } else {
      type = result_type(node, output);
    }
    if (given != nullptr && given->shape) shape = given->shape;
    return described(value_name(node.name, output), type, shape);
  }

  void collect(const std::unordered_set<size_t>& for_outputs, Selection& selection) {
    selection.needed_nodes = reached_.size();
    selection.graph.source = graph_.source;
    selection.graph.bytes = graph_.bytes;
    for (const VariableDef& variable : graph_.variables)
      if (!variable.trainable) selection.untrained.insert(parse_value(variable.name).node);
    std::set<std::string> taken;
    for (const GivenInput& input : options_.inputs) add_given(input, selection, taken);
    std::map<std::string, size_t> values_read;
    for (const size_t i : reached_)
      for (const std::string& input : inputs_of(graph_.nodes[i])) {
        const ValueName value = parse_value(input);
        if (!value.control)
          values_read[value.node] = std::max(values_read[value.node], value.output);
      }
    for (const std::string& output : outputs_) {
      const ValueName value = parse_value(output);
      values_read[value.node] = std::max(values_read[value.node], value.output);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (reached_.count(i) == 0) {
        if (waited_.count(i) != 0) add_order(i, selection);
        continue;
      }
      const NodeDef& node = graph_.nodes[i];
      if (for_outputs.count(i) == 0) selection.only_initial.insert(node.name);
      const OutsideOp* outside = outside_op(node);
      if (outside != nullptr && !outside->only_if_given) {
        for (size_t output = 0; output <= values_read[node.name]; ++output)
          if (taken.insert(value_name(node.name, output)).second)
            selection.inputs.push_back(outside_value(node, output, nullptr));
        continue;
      }
      if (dropped(node)) continue;
      add_node(node, static_cast<int>(i) + 1, selection);
    }
    for (const std::string& output : outputs_) {
      const ValueName value = parse_value(output);
      const NodeDef& node = *find(value.node);
      const OpRule* rule = rules_.find(node.op);
      if (dropped(node) || (rule != nullptr && rule->gives_nothing)) continue;
      selection.outputs.push_back(value_name(value.node, value.output));
    }
  }

  void add_given(const GivenInput& input, Selection& selection, std::set<std::string>& taken) {
    const ValueName value = parse_value(input.value);
    const std::string name = value_name(value.node, value.output);
    const auto node = index_.find(value.node);
    const bool is_output = std::any_of(outputs_.begin(), outputs_.end(), [&](const auto& output) {
      const ValueName wanted = parse_value(output);
      return value_name(wanted.node, wanted.output) == name;
    });
    const bool outside = outside_op(graph_.nodes[node->second]) != nullptr;
    if (reached_.count(node->second) == 0 && given_read_.count(name) == 0 && !is_output)
      fail(graph_, "--inputs '" + printable(input.value) + "'", "no output needs it");
    if (reached_.count(node->second) != 0 && !outside)
      fail(graph_, "--inputs '" + printable(input.value) + "'",
           "something else of its node is needed, too");
    taken.insert(name);
    selection.inputs.push_back(outside_value(graph_.nodes[node->second], value.output, &input));
    if (selection.inputs.back().type == onnx::DataType::kUndefined)
      fail(graph_, "--inputs '" + printable(input.value) + "'", "its node does not say its dtype");
  }

  void add_node(const NodeDef& node, int place, Selection& selection) {
    NodeDef kept = node;
    kept.inputs = inputs_of(node);
    for (const size_t before : waits_for(node))
      kept.inputs.push_back("^" + graph_.nodes[before].name);
    // A default that is not replaced is what the node passes on.
    if (const OutsideOp* outside = outside_op(node); outside != nullptr && outside->only_if_given) {
      kept.op = "Identity";
      kept.attributes.clear();
    }
    if (const auto initial = initial_.find(node.name); initial != initial_.end())
      kept.inputs.insert(kept.inputs.begin(), initial->second);
    std::erase_if(kept.inputs, [&](const std::string& input) {
      const ValueName value = parse_value(input);
      const NodeDef* before = find(value.node);
      return value.control && before != nullptr && (dropped(*before) || is_given(before->name));
    });
    selection.places.emplace(node.name, place);
    selection.graph.nodes.push_back(std::move(kept));
  }

  // Stands for the order that a node makes between those in front of it and those behind it.
  void add_order(size_t i, Selection& selection) {
    NodeDef order;
    order.name = graph_.nodes[i].name;
    order.op = "NoOp";
    for (const size_t before : nodes_before(graph_.nodes[i]))
      if (behind_[before]) order.inputs.push_back("^" + graph_.nodes[before].name);
    selection.places.emplace(order.name, static_cast<int>(i) + 1);
    selection.graph.nodes.push_back(std::move(order));
  }

  const GraphDef& graph_;
  const ImportOptions& options_;
  const OpRules& rules_;
  std::unordered_map<std::string, size_t> index_;
  std::map<std::string, const GivenInput*> given_;
  std::set<std::string> given_read_;
  std::vector<std::string> outputs_;
  std::unordered_set<size_t> reached_;
  std::vector<size_t> open_;
  std::vector<bool> behind_;           // nodes that assign, and those behind them
  std::unordered_set<size_t> waited_;  // for their order
  std::vector<size_t> open_waited_;
  std::map<std::string, std::string> initial_;  // of variables
};

}  // namespace

onnx::DataType onnx_type(DataType type) {
  using To = onnx::DataType;
  constexpr auto kReference = 100;
  const auto number = static_cast<int32_t>(type);
  switch (static_cast<DataType>(number > kReference ? number - kReference : number)) {
    case DataType::kFloat:
      return To::kFloat;
    case DataType::kDouble:
      return To::kDouble;
    case DataType::kInt32:
      return To::kInt32;
    case DataType::kUint8:
      return To::kUint8;
    case DataType::kInt16:
      return To::kInt16;
    case DataType::kInt8:
      return To::kInt8;
    case DataType::kString:
      return To::kString;
    case DataType::kComplex64:
      return To::kComplex64;
    case DataType::kInt64:
      return To::kInt64;
    case DataType::kBool:
      return To::kBool;
    case DataType::kBfloat16:
      return To::kBfloat16;
    case DataType::kUint16:
      return To::kUint16;
    case DataType::kComplex128:
      return To::kComplex128;
    case DataType::kHalf:
      return To::kFloat16;
    case DataType::kUint32:
      return To::kUint32;
    case DataType::kUint64:
      return To::kUint64;
    default:
      return To::kUndefined;
  }
}

bool is_from_outside(const NodeDef& node) { return outside_op(node) != nullptr; }

Selection select(const GraphDef& graph, const ImportOptions& options, const OpRules& rules) {
  const std::optional<GraphDef> merged = merge_shared_variables(graph, rules);
  Selection selection = Selecting(merged ? *merged : graph, options, rules).run();
  require_told_apart(selection.graph, rules);
  return selection;
}

}  // namespace keel::graphdef
