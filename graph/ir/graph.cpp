#include "keel/graph/ir/graph.h"

#include <algorithm>
#include <cstddef>
#include <unordered_set>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/graph/ir/frozen.h"
#include "keel/graph/ir/update_check.h"

namespace keel {
namespace {

[[noreturn]] void refuse_depth(const std::string& op, int most, CallSite site) {
  throw Error({.op = op,
               .argument = "body",
               .expected = "bodies nested at most " + std::to_string(most) + " deep",
               .got = "one more",
               .fix = "merge loops, or unroll an inner one in C++",
               .site = site});
}

bool any_has_effects(const std::vector<std::shared_ptr<Graph>>& bodies) {
  return std::any_of(bodies.begin(), bodies.end(),
                     [](const auto& body) { return body != nullptr && body->has_effects(); });
}

[[noreturn]] void refuse_second_token(const OpDef& op, CallSite site) {
  throw Error({.op = op.name,
               .expected = "one beginning of the graph's effects, before the first of them",
               .got = "another one",
               .fix = "leave it out: the graph makes it for its first effect",
               .site = site});
}

// Returns the name of an op's input for a message.
std::string argument_name(const OpDef& op, size_t index) {
  return index < op.input_names.size() ? op.input_names[index] : "input " + std::to_string(index);
}

}  // namespace

Graph::Graph() : Graph(builtin_ops()) {}

Graph::Graph(const OpTable& table) : table_(&table) {}

Graph::Graph(Graph* parent, CallSite site)
    : table_(parent->table_), parent_(parent), depth_(parent->depth_ + 1) {
  if (depth_ > kMaxBodyDepth) refuse_depth("graph", kMaxBodyDepth, site);
}

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
  // The caller may write into his tensor later; what was folded or compiled must not change.
  return add("constant", {}, Attributes::of(ConstantAttributes{value.clone()}), site).output();
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

Value Graph::updates_applied() { return reserved_state(kUpdatesState); }

Value Graph::seed() { return reserved_state(kSeedState); }

const Node& Graph::add(std::string_view op, Values inputs, Attributes attributes, CallSite site,
                       std::vector<std::shared_ptr<Graph>> bodies) {
  const OpDef* known = nullptr;
  try {
    known = &table_->at(op);
  } catch (const Error& error) {
    throw error.with_site(site);
  }
  return add(*known, std::move(inputs), std::move(attributes), site, std::move(bodies));
}

const Node& Graph::add(const OpDef& op, Values inputs, Attributes attributes, CallSite site,
                       std::vector<std::shared_ptr<Graph>> bodies) {
  if (closed_by_ != nullptr) {
    const auto inside = std::find_if(inputs.begin(), inputs.end(),
                                     [&](const Value& v) { return v.graph_ == this; });
    const bool found = inside != inputs.end();
    const auto index = static_cast<size_t>(inside - inputs.begin());
    require_open(op.name, found ? argument_name(op, index) : "", found ? *inside : Value(), site);
  }
  return insert(op, std::move(inputs), std::move(attributes), site, std::move(bodies));
}

const Node& Graph::insert(const OpDef& op, Values inputs, Attributes attributes, CallSite site,
                          std::vector<std::shared_ptr<Graph>> bodies) {
  if (const CallSite said = root().site_; said.known()) site = said;
  require_unfrozen(op.name, site);
  const bool ordered = op.has(kEffect) || any_has_effects(bodies);
  if (ordered) thread_token(op, inputs, site);
  const size_t data = inputs.size() - (ordered ? 1 : 0);
  check_arity(op, data, bodies.size(), site);
  if (op.attributes != nullptr && attributes.empty()) attributes = op.attributes->parse({});
  if (!same_struct(attributes.schema(), op.attributes)) {
    throw Error({.op = op.name, .message = "attributes of another op were given", .site = site});
  }
  const std::vector<Type> types = inferred(op, inputs, data, attributes, bodies, site);
  return append(op, inputs, keep_types(types, inputs), std::move(attributes), site,
                std::move(bodies));
}

const Node& Graph::add_copy(const Node& node, std::span<const Value> inputs) {
  return add_copy(node, inputs, types_hold(node, inputs));
}

const Node& Graph::add_copy(const Node& node, std::span<const Value> inputs, bool types_hold) {
  if (finished() || node.ordered() || !types_hold) {
    return add(node.op(), Values(inputs.begin(), inputs.end()), node.attributes(), node.site(),
               node.bodies());
  }
  const CallSite site = root().site_.known() ? root().site_ : node.site();
  require_unfrozen(node.op_name(), site);
  return append(node.op(), inputs, types_of_copy(node, inputs), node.attributes(), site,
                node.bodies());
}

bool Graph::types_hold(const Node& node, std::span<const Value> inputs) const {
  const NodeList<Value>& old = node.inputs();
  if (inputs.size() != old.size()) return false;
  for (size_t i = 0; i < old.size(); ++i) {
    if (!owns(inputs[i]) || inputs[i].type(node.site()) != old[i].type()) return false;
  }
  return true;
}

std::vector<Type> Graph::inferred(const OpDef& op, Values& inputs, size_t data,
                                  const Attributes& attributes,
                                  const std::vector<std::shared_ptr<Graph>>& bodies,
                                  CallSite site) {
  // Passes add nodes by the ten thousand, most of them with few inputs.
  constexpr size_t kFewInputs = 4;
  alignas(Type) std::byte room[kFewInputs * sizeof(Type)];
  std::pmr::monotonic_buffer_resource memory(room, sizeof(room));
  std::pmr::vector<Type> operands(&memory);
  operands.reserve(data);
  for (size_t i = 0; i < data; ++i) {
    if (!owns(inputs[i])) {
      require_within_reach(inputs[i], op.name, argument_name(op, i), site);
      inputs[i] = capture(inputs[i]);
    }
    const Type& type = inputs[i].type(site);
    // The name is made for the message alone.
    if (type.dtype == DType::kToken) require_data(inputs[i], op.name, argument_name(op, i), site);
    operands.push_back(type);
  }
  try {
    std::vector<Type> types = op.infer(InferContext(op, operands, attributes, bodies, site));
    if (inputs.size() > data) types.push_back({DType::kToken, {}});
    return types;
  } catch (const Error& error) {
    const std::string scope = label() == nullptr ? "" : label()->scope;
    throw scope.empty() ? error.with_site(site) : error.with_site(site).with_context(scope);
  }
}

const Node& Graph::append(const OpDef& op, std::span<const Value> inputs, NodeList<Type> types,
                          Attributes attributes, CallSite site,
                          std::vector<std::shared_ptr<Graph>> bodies) {
  const int height = height_with(bodies, op, site);
  const bool is_input = op.role == OpRole::kInput;
  const bool is_state = op.role == OpRole::kState;
  if (op.role == OpRole::kToken && token_.valid()) refuse_second_token(op, site);
  if (is_input) require_name(attributes.as<InputAttributes>().name, op, site);
  if (is_state) require_name(attributes.as<StateAttributes>().name, op, site);
  if (is_state) require_new_state(attributes.as<StateAttributes>().name, site);
  const NodeList<Value> own_inputs = keep<Value>(inputs);

  Node& node = nodes_.add();
  node.graph_ = this;
  node.id_ = static_cast<uint32_t>(nodes_.size() - 1);
  node.op_ = &op;
  node.inputs_ = own_inputs;
  node.attributes_ = std::move(attributes);
  node.types_ = types;
  node.bodies_ = std::move(bodies);
  node.site_ = site;
  node.label_ = label();
  height_ = height;
  if (node.ordered() || op.role == OpRole::kToken)
    token_ = node.output(static_cast<uint32_t>(types.size()) - 1);
  if (is_input || is_state) {
    (is_input ? inputs_ : states_).push_back(node.output());
    (is_input ? input_names_ : state_names_).insert_or_assign(name_of(node), node.output());
  }
  return node;
}

bool Graph::has_effects() const noexcept {
  return token_.valid() && !nodes_[token_.node_id()].is(OpRole::kToken);
}

Value Graph::token() {
  if (!token_.valid()) insert(table_->at("token"), {}, {}, {});
  return token_;
}

// Passes and users give no token; text gives the one it was printed with.
void Graph::thread_token(const OpDef& op, Values& inputs, CallSite site) {
  const bool given =
      !inputs.empty() && owns(inputs.back()) && inputs.back().type(site).dtype == DType::kToken;
  if (!given) inputs.push_back(token());
  if (inputs.back() == token_) return;
  throw Error({.op = op.name,
               .argument = "token",
               .expected = "the one behind the effect before it",
               .got = "the one of " + described(inputs.back()) + made_at(inputs.back()),
               .fix = "leave the token out: the graph threads it through its effects",
               .site = site});
}

void Graph::require_data(const Value& value, const std::string& op, const std::string& argument,
                         CallSite site) const {
  if (value.type(site).dtype != DType::kToken) return;
  throw Error({.op = op,
               .argument = argument,
               .expected = "a value with elements",
               .got = "a token, which orders effects and holds nothing",
               .site = site});
}

int Graph::height_with(const std::vector<std::shared_ptr<Graph>>& bodies, const OpDef& op,
                       CallSite site) const {
  int height = height_;
  for (const auto& body : bodies) {
    if (body != nullptr) height = std::max(height, body->height_ + 1);
  }
  if (depth_ + height > kMaxNesting) refuse_depth(op.name, kMaxNesting, site);
  return height;
}

void Graph::require_name(const std::string& name, const OpDef& op, CallSite site) const {
  if (printable(name) == name) return;
  throw Error({.op = op.name,
               .argument = "name",
               .expected = "UTF-8 text without control characters",
               .got = "'" + printable(name) + "'",
               .site = site});
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
NodeList<Type> Graph::keep_types(std::span<const Type> types, std::span<const Value> inputs) {
  for (const Value& v : inputs) {
    if (v.node().types() == types) return v.node().types();
  }
  return keep<Type>(types);
}

// Does the same for a copy, with a look at the one input alone whose list the node has where it
// comes from.
NodeList<Type> Graph::types_of_copy(const Node& node, std::span<const Value> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs()[i].node().types().data() != node.types().data()) continue;
    const NodeList<Type>& here = inputs[i].node().types();
    if (here == node.types()) return here;
  }
  return keep<Type>(node.types());
}

void Graph::require_unfrozen(const std::string& op, CallSite site) const {
  if (frozen_) refuse_frozen(op, site);
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
  if (parent_ != nullptr) refuse("graph", "the root graph", "a body of a control op");
  if (!outputs_.empty() || !updates_.empty())
    refuse("graph", "one without outputs and updates", "one that describes a step already");
  for (size_t i = 0; i < fetches.size(); ++i)
    require_own(fetches[i], "prepare_loop", "fetch " + std::to_string(i), site);
  for (const Assignment& a : update.assignments) {
    require_own(a.state, "prepare_loop", "updated state", site);
    require_own(a.next, "prepare_loop", "next value", site);
    require_assignment(a, "prepare_loop", site);
  }
  require_step(update.assignments, "prepare_loop", site);
  const OpDef& step_end = table_->at("step_end");
  Values stop;
  if (stop_when.valid()) {
    require_own(stop_when, "prepare_loop", "stop_when", site);
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

std::string Graph::whereabouts(const Value& value) {
  const Graph& graph = value.graph();
  std::string place = " of another graph";
  if (graph.closed_by_ != nullptr) {
    place = std::string(" of the body of ") + graph.closed_by_;
    if (graph.closed_at_.known()) place += " (" + to_string(graph.closed_at_) + ")";
  } else if (graph.parent_ != nullptr) {
    place = " of a body of a control op";
  }
  return described(value) + place + made_at(value);
}

void Graph::require_within_reach(const Value& value, const std::string& op,
                                 const std::string& argument, CallSite site) const {
  const auto refuse = [&](const std::string& got, const std::string& fix) {
    throw Error(
        {.op = op,
         .argument = argument,
         .expected = value.valid() ? "a value of this graph or of one around it" : "a Value",
         .got = got,
         .fix = fix,
         .site = site});
  };
  if (!value.valid()) {
    refuse("an empty Value", "give it one first: an input, a state, or the result of an op");
  }
  static_cast<void>(value.type(site));
  for (const Graph* g = this; g != nullptr; g = g->parent_) {
    if (g == value.graph_) return;
  }
  const bool state = value.node().is(OpRole::kState);
  refuse(whereabouts(value),
         std::string("build both in one graph; results of a body leave it only as its outputs") +
             (state ? "; a function of a pipeline takes constants instead of states" : ""));
}

void Graph::require_own(const Value& value, const std::string& op, const std::string& argument,
                        CallSite site, const char* owner) const {
  if (value.valid()) static_cast<void>(value.type(site));
  if (value.graph_ == this) return;
  const char* const fix = value.valid() && value.graph_->parent_ != nullptr
                              ? "results of a body leave it only as its outputs"
                          : value.valid()
                              ? "take it from the graph that is run"
                              : "give it one first: an input, a state, or the result of an op";
  throw Error({.op = op,
               .argument = argument,
               .expected = std::string("a value of ") + owner,
               .got = value.valid() ? whereabouts(value) : "an empty Value",
               .fix = fix,
               .site = site});
}

void Graph::close(const char* op, CallSite site) noexcept {
  closed_by_ = op;
  closed_at_ = site;
}

void Graph::require_open(const std::string& op, const std::string& argument, const Value& value,
                         CallSite site) const {
  if (closed_by_ == nullptr) return;
  throw Error({.op = op,
               .argument = argument,
               .expected = "a value of the graph outside",
               .got = value.valid() ? whereabouts(value)
                                    : std::string("the body of ") + closed_by_ + " (" +
                                          to_string(closed_at_) + "), which is finished",
               .fix = "results of a body leave it only as its outputs",
               .site = site});
}

void Graph::refuse_node(uint32_t id) const {
  throw Error({.op = "graph",
               .argument = "node",
               .expected = "one of its " + std::to_string(nodes_.size()) + " nodes",
               .got = std::to_string(id)});
}

Value Graph::capture(Value outer) {
  if (outer.graph_ == this) return outer;
  if (parent_ == nullptr) {
    throw Error({.op = "capture",
                 .expected = "a value of this graph or of one around it",
                 .got = outer.valid() ? whereabouts(outer) : "an empty Value"});
  }
  const Value near = parent_->capture(outer);
  if (const auto known = captured_.find(near); known != captured_.end()) return known->second;
  const std::string name = "capture" + std::to_string(captures_.size());
  const OpDef& input = table_->at("input");
  const Value inner =
      insert(input, {}, Attributes::of(InputAttributes{name, {near.type()}}), near.node().site())
          .output();
  captures_.emplace_back(near, inner);
  captured_.emplace(near, inner);
  return inner;
}

std::shared_ptr<Graph> Graph::make_body(CallSite site, bool always_runs) {
  const std::shared_ptr<Graph>& body =
      made_bodies_.emplace_back(std::make_shared<Graph>(this, site));
  body->always_runs_ = always_runs;
  return body;
}

Graph& Graph::under_construction() noexcept {
  Graph* graph = this;
  while (!graph->made_bodies_.empty() && !graph->made_bodies_.back()->finished())
    graph = graph->made_bodies_.back().get();
  return *graph;
}

void Graph::order_captures(const Values& outers) {
  std::unordered_set<Value, ValueHash> inner;
  for (const auto& pair : captures_) inner.insert(pair.second);
  Values ordered;
  for (const Value& input : inputs_) {
    if (!inner.contains(input)) ordered.push_back(input);
  }
  std::vector<std::pair<Value, Value>> captures;
  for (const Value& outer : outers) {
    captures.emplace_back(outer, capture(outer));
    ordered.push_back(captures.back().second);
  }
  inputs_ = std::move(ordered);
  captures_ = std::move(captures);
}

Graph& Graph::root() noexcept {
  Graph* root = this;
  while (root->parent_ != nullptr) root = root->parent_;
  return *root;
}

int64_t Graph::next_salt() noexcept { return root().salts_++; }

void Graph::skip_salts(int64_t last) noexcept {
  Graph& own = root();
  own.salts_ = std::max(own.salts_, last + 1);
}

const NodeLabelPtr& Graph::label() const noexcept { return root().label_; }

NodeLabelPtr Graph::exchange_label(NodeLabelPtr label) noexcept {
  return std::exchange(root().label_, std::move(label));
}

CallSite Graph::exchange_site(CallSite site) noexcept { return std::exchange(root().site_, site); }

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
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string argument = "output " + std::to_string(i);
    require_own(outputs[i], "set_outputs", argument, site);
    require_data(outputs[i], "set_outputs", argument, site);
  }
  outputs_ = std::move(outputs);
}

void Graph::add_update(Value state, Value next, CallSite site) {
  require_unfrozen("add_update", site);
  require_own(state, "add_update", "state", site);
  require_own(next, "add_update", "next", site);
  // verify() says it of a state that is assigned twice: to ask all assignments for each of the many
  // that passes copy would take too long.
  require_assignment({state, next}, "add_update", site);
  updates_.push_back({state, next});
}

void Graph::attach_update(Value output, Value state, Value next, CallSite site) {
  require_unfrozen("attach_update", site);
  require_own(output, "attach_update", "output", site);
  require_own(state, "attach_update", "state", site);
  require_own(next, "attach_update", "next", site);
  attached_.push_back({output, state, next});
}

void Graph::attach_update(Value output, Value state, Value next, Value observed, CallSite site) {
  require_unfrozen("attach_update", site);
  require_own(observed, "attach_update", "observed", site);
  attach_update(output, state, next, site);
  attached_.back().observed = observed;
}

}  // namespace keel
