// If, Loop and Scan: bodies as Keel's functional control flow.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "keel/graph/autodiff/row_stack.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/emit.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_branches.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/reduce.h"

namespace keel::onnx {
namespace {

Value scalar_of(const Value& x) { return x.shape({}).rank() == 0 ? x : reshape(x, Shape{}, {}); }

// Where the condition is known at import only one side of it is imported.
Values if_of(NodeContext& c) {
  const auto then_graph = c.graph_attribute("then_branch");
  const auto else_graph = c.graph_attribute("else_branch");
  if (const std::optional<Tensor> known = c.known(0)) {
    if (known->num_elements() != 1) c.refuse("its condition is not one bool");
    return c.body(known->at(0) != 0 ? *then_graph : *else_graph, {}, c.place());
  }
  return conditional(c, scalar_of(c.in(0)), {}, *then_graph, *else_graph);
}

// The results of a loop that have a row for each turn: those behind its first `variables`.
class TurnRows {
 public:
  TurnRows(NodeContext& c, const std::vector<Type>& types, size_t variables, int64_t turns,
           std::vector<Operand>& state)
      : variables_(variables) {
    for (size_t i = variables; i < types.size(); ++i) {
      stacks_.emplace_back(types[i], CallSite{});
      state.emplace_back(stacks_.back().make(c.graph(), turns));
    }
  }
  // `next` holds what one turn gives, and then the stacks.
  void write(const Values& stacks, const Value& turn, Values& next) const {
    for (size_t i = 0; i < stacks_.size(); ++i) {
      Value& row = next[variables_ + i];
      row = stacks_[i].write(stacks[variables_ + i], turn, row, {});
    }
  }
  void finish(Values& results) const {
    for (size_t i = 0; i < stacks_.size(); ++i)
      results[variables_ + i] = stacks_[i].rows(results[variables_ + i]);
  }

 private:
  size_t variables_;
  std::vector<RowStack> stacks_;
};

// The nodes of a graph by what they give.
using Givers = std::unordered_map<std::string, const NodeProto*>;

Givers givers_of(const GraphProto& graph) {
  Givers givers;
  for (const NodeProto& node : graph.nodes)
    for (const std::string& output : node.outputs) givers.emplace(output, &node);
  return givers;
}
const NodeProto* node_giving(const Givers& givers, const std::string& name) {
  const auto giver = givers.find(name);
  return giver == givers.end() ? nullptr : giver->second;
}
bool has_input(const GraphProto& graph, const std::string& name) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(),
                     [&](const ValueInfo& input) { return input.name == name; });
}

// The tensor that a graph itself has under that name, as an initializer or a Constant, or that the
// graphs around it know.
std::optional<Tensor> constant_named(const NodeContext& c, const GraphProto& graph,
                                     const Givers& givers, const std::string& name) {
  if (has_input(graph, name)) return std::nullopt;
  for (const TensorProto& tensor : graph.initializers)
    if (tensor.name == name) return c.tensor_of(tensor);
  const NodeProto* node = node_giving(givers, name);
  if (node == nullptr) return c.known_named(name);
  for (const AttributeProto& attribute : node->attributes)
    if (node->op == "Constant" && attribute.tensor != nullptr)
      return c.tensor_of(*attribute.tensor);
  return std::nullopt;
}

// Exporters put such nodes between a condition and what a loop's body gives.
bool passes_condition(const NodeProto& node) {
  if (node.inputs.size() != 1 || node.outputs.size() != 1) return false;
  for (const AttributeProto& attribute : node.attributes)
    if (node.op == "Cast" && attribute.name == "to")
      return static_cast<DataType>(attribute.i) == DataType::kBool;
  return node.op == "Identity";
}

// Says whether a loop's body hands its condition on as it was given, or one that always holds.
bool keeps_condition(const NodeContext& c, const GraphProto& body) {
  const std::string& given = body.inputs[1].name;
  std::string name = body.outputs[0].name;
  const Givers givers = givers_of(body);
  for (size_t hops = 0; name != given && hops <= body.nodes.size(); ++hops) {
    const NodeProto* node = node_giving(givers, name);
    if (node == nullptr || !passes_condition(*node)) {
      const std::optional<Tensor> known = constant_named(c, body, givers, name);
      return known && known->num_elements() == 1 && known->at(0) != 0;
    }
    name = node->inputs[0];
  }
  return name == given;
}

// How often a loop runs, where that is known; else -1.
int64_t known_trips(NodeContext& c, const GraphProto& body) {
  const std::optional<Tensor> condition = c.known(1);
  if (!c.known(0) || !keeps_condition(c, body)) return -1;
  if (c.has(1) && (!condition || condition->num_elements() != 1)) return -1;
  if (condition && condition->at(0) == 0) return 0;
  return std::max<int64_t>(c.integer(0, "the number of its turns"), 0);
}

// Without a condition among its inputs a loop passes over the one that its body gives, says ONNX.
// ONNX Runtime obeys that one, so that files may have been written for either reading.
void require_one_reading(NodeContext& c, const GraphProto& body) {
  if (c.has(1) || keeps_condition(c, body)) return;
  if (c.known(0) && c.integer(0, "the number of its turns") <= 1) return;
  c.refuse(
      "it has no condition among its inputs, and its body gives one that may end it: ONNX passes "
      "over that, and some runtimes obey it; give it a condition as its input, or let its body "
      "hand on the one that it is given");
}

// The same for a loop that collects a row a turn, which has to be known.
int64_t required_trips(NodeContext& c, const GraphProto& body) {
  if (!keeps_condition(c, body) || !c.has(0)) {
    c.refuse(
        "it collects a row for each turn, and how many turns there are is not known before "
        "the run");
  }
  c.constant(0, "the number of its turns");
  if (c.has(1)) c.constant(1, "its condition");
  return known_trips(c, body);
}

// Variables first, then what each turn adds to the results that have one row a turn.
Values loop(NodeContext& c) {
  const auto body = c.graph_attribute("body");
  if (body->inputs.size() < 2 || body->outputs.empty()) c.refuse("its body is no loop's");
  const size_t variables = body->inputs.size() - 2;
  const size_t scans = body->outputs.size() - 1 - std::min(variables, body->outputs.size() - 1);
  require_one_reading(c, *body);
  const int64_t trips = scans == 0 ? known_trips(c, *body) : required_trips(c, *body);
  const Value goes_on = c.has(1) ? scalar_of(c.in(1)) : c.result(Tensor::full(boolean, {}, 1));
  std::vector<Operand> state{Operand(c.here(goes_on))};
  for (size_t i = 0; i < variables; ++i) state.emplace_back(c.in(2 + i));
  std::vector<Type> types;
  if (scans != 0) {
    Values inputs{c.result(Tensor::scalar<int64_t>(0)), state[0].value()};
    for (size_t i = 0; i < variables; ++i) inputs.push_back(state[i + 1].value());
    types = c.body_types(*body, inputs, std::vector<bool>(inputs.size(), false));
  }
  const TurnRows rows(c, types, 1 + variables, trips, state);
  const bool bounded = c.has(0);
  const Value most = bounded ? scalar_of(c.in(0)) : Value();
  const auto condition = [&](const Values& v) {
    if (!bounded) return v[0];
    return logical_and(v[0], less(v[0].graph({}).iteration(), most, {}), {});
  };
  const auto turn = [&](const Values& v) {
    const Value number = v[0].graph({}).iteration();
    Values inputs{number};
    inputs.insert(inputs.end(), v.begin(), v.begin() + 1 + static_cast<std::ptrdiff_t>(variables));
    Values next = c.body(*body, inputs, v[0].graph({}));
    next[0] = scalar_of(next[0]);
    rows.write(v, number, next);
    return next;
  };
  WhileOptions options;
  if (trips >= 0) options.trip_count = trips;
  Values results = while_loop(state, condition, turn, options, {});
  rows.finish(results);
  return {results.begin() + 1, results.end()};
}

// Returns what is scanned, of which each has as many elements along its first axis.
Values scanned_sources(NodeContext& c, size_t first) {
  Values sources;
  for (size_t i = first; i < c.inputs(); ++i) {
    Value source = c.in(i);
    c.require_rank(source, 1, Shape::kMaxRank, "what it scans is");
    if (i > first) {
      const int64_t turns = sources[0].shape({})[0], own = source.shape({})[0];
      if (turns >= 0 && own >= 0 && own != turns) {
        c.refuse("it scans " + std::to_string(turns) + " elements of its input " +
                 std::to_string(first) + " and " + std::to_string(own) + " of its input " +
                 std::to_string(i));
      }
      const std::string name = "input " + std::to_string(i);
      if (own != turns) source = same_dims(source, sources[0], {{0}, {0}, c.node().op, name}, {});
    }
    sources.push_back(source);
  }
  return sources;
}

// One turn for each element along the first axis of what is scanned.
Values scan(NodeContext& c) {
  const auto body = c.graph_attribute("body");
  const int64_t given = c.attribute("num_scan_inputs", int64_t{0});
  if (c.version() < 9) c.refuse("before op set 9 it runs once for each element of a batch");
  const auto scanned = static_cast<size_t>(given);
  if (given < 1 || scanned > c.inputs()) c.refuse("its num_scan_inputs do not fit its inputs");
  const size_t variables = c.inputs() - scanned;
  for (const char* name :
       {"scan_input_axes", "scan_output_axes", "scan_input_directions", "scan_output_directions"}) {
    for (const int64_t value : c.attribute(name, std::vector<int64_t>{}))
      if (value != 0) c.refuse(std::string("its ") + name + " are not 0");
  }
  const Values sources = scanned_sources(c, variables);
  const int64_t trips = sources[0].shape({})[0];
  if (trips < 0) c.refuse("how many turns there are is not known before the run");
  const auto row_of = [&](size_t i, const Value& number) {
    return gather(sources[i], number, 0, {});
  };
  Values first;
  for (size_t i = 0; i < variables; ++i) first.push_back(c.here(c.in(i)));
  std::vector<Operand> state(first.begin(), first.end());
  for (size_t i = 0; i < scanned; ++i)
    first.push_back(row_of(i, c.result(Tensor::scalar<int64_t>(0))));
  const TurnRows rows(c, c.body_types(*body, first, std::vector<bool>(first.size(), false)),
                      variables, trips, state);
  if (state.empty()) c.refuse("it gives nothing");
  state[0] = Operand(c.here(state[0].value()));
  const auto always = [](const Values& v) {
    return v[0].graph({}).constant(Tensor::full(boolean, {}, 1), {});
  };
  const auto turn = [&](const Values& v) {
    const Value number = v[0].graph({}).iteration();
    Values inputs(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(variables));
    for (size_t i = 0; i < scanned; ++i) inputs.push_back(row_of(i, number));
    Values next = c.body(*body, inputs, v[0].graph({}));
    rows.write(v, number, next);
    return next;
  };
  Values results = while_loop(state, always, turn, {.trip_count = trips}, {});
  rows.finish(results);
  return results;
}

}  // namespace

void register_import_control(ImportRules& rules) {
  rules.add("If", if_of);
  rules.add("Loop", loop);
  rules.add("Scan", scan);
}

}  // namespace keel::onnx
