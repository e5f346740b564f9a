#include "keel/graph/ir/graph.h"

#include <algorithm>
#include <utility>

#include "keel/core/base/error.h"

namespace keel {

Graph::Graph() : Graph(builtin_ops()) {}

Graph::Graph(const OpTable& table) : table_(&table) {}

Graph::Graph(Graph* parent) : table_(parent->table_), parent_(parent), depth_(parent->depth_ + 1) {}

Graph::~Graph() = default;

Value Graph::input(const std::string& name, DType dtype, const Shape& shape, CallSite site) {
  if (name.empty() || find_input(name).valid()) {
    throw Error({.op = "input",
                 .argument = "name",
                 .expected = "a name that no other input has",
                 .got = "'" + name + "'",
                 .site = site});
  }
  return add("input", {}, Attributes::of(InputAttributes{name, {Type{dtype, shape}}}), site)
      .output();
}

Value Graph::state(const std::string& name, const Initializer& init, StateOptions options,
                   CallSite site) {
  if (name.rfind("keel/", 0) == 0) {
    throw Error({.op = "state",
                 .argument = "name",
                 .got = "'" + name + "'",
                 .message = "names that begin with keel/ are reserved",
                 .site = site});
  }
  StateAttributes attributes{name,   init.kind,  {init.type},      init.a,
                             init.b, init.value, options.trainable};
  return add("state", {}, Attributes::of(std::move(attributes)), site).output();
}

Value Graph::constant(const Tensor& value, CallSite site) {
  if (value.empty()) {
    throw Error({.op = "constant", .expected = "a tensor", .got = "an empty Tensor", .site = site});
  }
  return add("constant", {}, Attributes::of(ConstantAttributes{value}), site).output();
}

Value Graph::reserved_state(const char* name) {
  if (parent_ != nullptr) return capture(parent_->reserved_state(name));
  if (const Value existing = find_state(name); existing.valid()) return existing;
  StateAttributes attributes;
  attributes.name = name;
  attributes.type = {Type{i64, Shape{}}};
  attributes.trainable = false;
  return add("state", {}, Attributes::of(std::move(attributes)), {}).output();
}

Value Graph::step() { return reserved_state(kStepState); }

Value Graph::seed() { return reserved_state(kSeedState); }

const Node& Graph::add(std::string_view op, Values inputs, Attributes attributes, CallSite site,
                       std::vector<std::shared_ptr<Graph>> bodies) {
  return add(table_->at(op), std::move(inputs), std::move(attributes), site, std::move(bodies));
}

const Node& Graph::add(const OpDef& op, Values inputs, Attributes attributes, CallSite site,
                       std::vector<std::shared_ptr<Graph>> bodies) {
  require_unfrozen(op.name, site);
  check_arity(op, inputs.size(), bodies.size(), site);
  if (op.attributes != nullptr && attributes.empty()) attributes = op.attributes->parse({});
  if (attributes.schema() != op.attributes) {
    throw Error({.op = op.name, .message = "attributes of another op were given", .site = site});
  }
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = adopt(inputs[i], site, op, i);

  std::vector<Type> types;
  types.reserve(inputs.size());
  for (const Value& v : inputs) types.push_back(v.type());
  try {
    types = op.infer(InferContext(op, types, attributes, bodies, site));
  } catch (const Error& error) {
    throw error.with_site(site);
  }
  const bool is_input = op.name == "input";
  const bool is_state = op.name == "state";
  if (is_state) require_new_state(attributes.as<StateAttributes>().name, site);
  const NodeList<Value> own_inputs = keep<Value>(inputs);
  const NodeList<Type> own_types = keep_types(types, inputs);

  Node& node = nodes_.emplace_back();
  node.graph_ = this;
  node.id_ = static_cast<uint32_t>(nodes_.size() - 1);
  node.op_ = &op;
  node.inputs_ = own_inputs;
  node.attributes_ = std::move(attributes);
  node.types_ = own_types;
  node.bodies_ = std::move(bodies);
  node.site_ = site;
  if (is_input || is_state) {
    (is_input ? inputs_ : states_).push_back(node.output());
    (is_input ? input_names_ : state_names_).insert_or_assign(name_of(node), node.output());
  }
  return node;
}

void Graph::require_new_state(const std::string& name, CallSite site) const {
  const bool fresh = !find_state(name).valid();
  if (fresh && parent_ == nullptr) return;
  throw Error({.op = "state",
               .argument = "name",
               .expected = fresh ? "the root graph" : "a name that no other state has",
               .got = fresh ? "a body of a control op" : "'" + name + "'",
               .fix = fresh ? "make the state outside and use it inside" : "",
               .site = site});
}

// Most nodes have the types of one that they read: one list serves both.
NodeList<Type> Graph::keep_types(const std::vector<Type>& types, const Values& inputs) {
  for (const Value& v : inputs) {
    if (v.node().types() == types) return v.node().types();
  }
  return keep<Type>(types);
}

void Graph::require_unfrozen(const std::string& op, CallSite site) const {
  if (!frozen_) return;
  throw Error({.op = op,
               .message = "GRAPH_FROZEN: the graph is frozen",
               .fix = "change it before freeze()",
               .site = site});
}

void Graph::prepare_loop(const Update& update, const Values& fetches, Value stop_when,
                         CallSite site) {
  require_unfrozen("prepare_loop", site);
  const auto refuse = [&](const char* argument, const char* expected, const std::string& got) {
    throw Error({.op = "prepare_loop",
                 .argument = argument,
                 .expected = expected,
                 .got = got,
                 .site = site});
  };
  const auto require_own = [&](const Value& value, const char* argument) {
    if (value.valid() && &value.graph() == this) return;
    refuse(argument, "a value of the graph", value.valid() ? "one of another" : "an empty Value");
  };
  if (parent_ != nullptr) refuse("graph", "the root graph", "a body of a control op");
  if (!outputs_.empty() || !updates_.empty())
    refuse("graph", "one without outputs and updates", "one that describes a step already");
  for (const Value& fetch : fetches) require_own(fetch, "fetches");
  for (const Assignment& a : update.assignments) {
    require_own(a.state, "update");
    require_own(a.next, "update");
  }
  const OpDef& step_end = table_->at("step_end");
  Values stop;
  if (stop_when.valid()) {
    require_own(stop_when, "stop_when");
    stop.push_back(stop_when);
  }
  step();
  seed();
  add(step_end, std::move(stop), step_end.attributes->parse({{"is_step_boundary", true}}), site);
  set_outputs(fetches, site);
  for (const Assignment& a : update.assignments) add_update(a.state, a.next, site);
}

void Graph::check_arity(const OpDef& op, size_t inputs, size_t bodies, CallSite site) const {
  const size_t most = op.input_names.size();
  const size_t least = most - op.optional_inputs - (op.variadic && most > 0 ? 1 : 0);
  if (inputs < least || (inputs > most && !op.variadic)) {
    throw Error({.op = op.name,
                 .argument = "number of inputs",
                 .expected = (op.variadic || op.optional_inputs > 0 ? "at least " : "") +
                             std::to_string(least),
                 .got = std::to_string(inputs),
                 .site = site});
  }
  if (bodies != op.bodies) {
    throw Error({.op = op.name,
                 .argument = "number of bodies",
                 .expected = std::to_string(op.bodies),
                 .got = std::to_string(bodies),
                 .site = site});
  }
}

Value Graph::adopt(Value value, CallSite site, const OpDef& op, size_t index) {
  const auto argument = [&] {
    return index < op.input_names.size() ? op.input_names[index] : "input " + std::to_string(index);
  };
  if (!value.valid()) {
    throw Error({.op = op.name,
                 .argument = argument(),
                 .expected = "a Value",
                 .got = "an empty Value",
                 .site = site});
  }
  if (&value.graph() == this) return value;
  for (const Graph* g = parent_; g != nullptr; g = g->parent_) {
    if (g == &value.graph()) return capture(value);
  }
  const bool state = value.node().op_name() == "state";
  const bool named = state || value.node().op_name() == "input";
  throw Error(
      {.op = op.name,
       .argument = argument(),
       .expected = "a value of this graph or of one around it",
       .got = named ? value.node().op_name() + " '" + name_of(value.node()) + "' of another graph"
                    : "a value of another graph",
       .fix = std::string("build both in one graph; results of a body leave it only as its "
                          "outputs") +
              (state ? "; a function of a pipeline takes constants instead of states" : ""),
       .site = site});
}

Value Graph::capture(Value outer) {
  if (&outer.graph() == this) return outer;
  const Value near = parent_->capture(outer);
  for (const auto& [from, inner] : captures_) {
    if (from == near) return inner;
  }
  const std::string name = "capture" + std::to_string(captures_.size());
  const Value inner = input(name, near.dtype(), near.shape(), near.node().site());
  captures_.emplace_back(near, inner);
  return inner;
}

void Graph::order_captures(const Values& outers) {
  Values ordered;
  for (const Value& input : inputs_) {
    const auto captured = [&](const auto& pair) { return pair.second == input; };
    if (std::none_of(captures_.begin(), captures_.end(), captured)) ordered.push_back(input);
  }
  std::vector<std::pair<Value, Value>> captures;
  for (const Value& outer : outers) {
    captures.emplace_back(outer, capture(outer));
    ordered.push_back(captures.back().second);
  }
  inputs_ = std::move(ordered);
  captures_ = std::move(captures);
}

int64_t Graph::next_salt() noexcept {
  Graph* root = this;
  while (root->parent_ != nullptr) root = root->parent_;
  return root->salts_++;
}

void Graph::order_inputs(Values order) {
  std::vector<bool> missing(nodes_.size(), false);
  for (const Value& v : inputs_) missing[v.node_id()] = true;
  bool ok = order.size() == inputs_.size();
  for (const Value& v : order) {
    ok = ok && v.valid() && &v.graph() == this && missing[v.node_id()];
    if (ok) missing[v.node_id()] = false;
  }
  if (!ok) {
    throw Error({.op = "graph",
                 .argument = "order of inputs",
                 .expected = "each of its " + std::to_string(inputs_.size()) + " inputs once",
                 .got = "other values"});
  }
  inputs_ = std::move(order);
}

void Graph::set_outputs(Values outputs, CallSite site) {
  require_unfrozen("set_outputs", site);
  outputs_ = std::move(outputs);
}

void Graph::add_update(Value state, Value next, CallSite site) {
  require_unfrozen("add_update", site);
  updates_.push_back({state, next});
}

void Graph::attach_update(Value output, Value state, Value next, CallSite site) {
  require_unfrozen("attach_update", site);
  attached_.push_back({output, state, next});
}

Value Graph::find_input(std::string_view name) const {
  const auto it = input_names_.find(name);
  return it == input_names_.end() ? Value() : it->second;
}

Value Graph::find_state(std::string_view name) const {
  const auto it = state_names_.find(name);
  return it == state_names_.end() ? Value() : it->second;
}

const std::string& name_of(const Node& node) {
  if (node.op_name() == "state") return node.as<StateAttributes>().name;
  return node.as<InputAttributes>().name;
}

}  // namespace keel
