#include "keel/ops/exchange/onnx/importer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "keel/core/base/printable.h"
#include "keel/core/base/read_budget.h"
#include "keel/graph/ir/captures.h"
#include "keel/graph/ir/scopes.h"
#include "keel/ops/conformance/evaluate.h"
#include "keel/ops/shape.h"

namespace keel::onnx {
namespace {

// Results up to this size are computed at import where they depend on nothing; larger ones when the
// graph runs, but for initial values, which no graph holds.
constexpr size_t kMostFoldedBytes = size_t{1} << 20, kMostScratchBytes = 16 * kMostFoldedBytes;
// Bodies are imported where they are called: files may name many more nodes than they have.
constexpr size_t kMostNodes = 100000, kMostImportsOfANode = 8;
// The last op set that the rules were written by: a later one may mean other things by the same
// attributes. What ops lost or changed before set 6 were attributes, which no rule passes over.
constexpr int64_t kLastOpset = 24;

NodeLabelPtr label_of(const NodeProto& node) {
  std::string scope = printable(node.name);
  scope.erase(0, scope.find_first_not_of('/'));
  if (scope.empty()) return nullptr;
  auto label = std::make_shared<NodeLabel>();
  label->scope = std::move(scope);
  return label;
}

const char* kind_name(ValueInfo::Kind kind) {
  switch (kind) {
    case ValueInfo::Kind::kSequence:
      return "a sequence";
    case ValueInfo::Kind::kMap:
      return "a map";
    case ValueInfo::Kind::kOptional:
      return "an optional";
    case ValueInfo::Kind::kSparseTensor:
      return "a sparse tensor";
    default:
      return "of no known type";
  }
}

// Tells masks and bounds, which hold infinities, from weights. NaN stays with the weights, where it
// shows.
bool is_a_bound(const Tensor& tensor) {
  return visit_dtype(tensor.dtype(), [&]<class T>() {
    bool infinite = false;
    for (const T& element : tensor.data<T>()) {
      const auto x = static_cast<double>(element);
      if (std::isnan(x)) return false;
      infinite = infinite || std::isinf(x);
    }
    return infinite;
  });
}

bool may_be_imported(const ValueInfo& info) {
  const bool is_tensor =
      info.kind == ValueInfo::Kind::kTensor || info.kind == ValueInfo::Kind::kUnknown;
  return is_tensor && (info.type == DataType::kUndefined || dtype_of(info.type));
}

// Returns what an error of a node says. The line that asked for it may be one of a rule, which
// users know nothing of: the node's stands in its place.
std::string text_at(const Error& error, CallSite node) {
  const CallSite site = error.info().site;
  const std::string text = error.what(), place = " (" + to_string(site) + ")";
  if (!site.known() || site.file == node.file || !text.ends_with(place)) return text;
  return text.substr(0, text.size() - place.size()) + " (" + printable(to_string(node)) + ")";
}

bool is_initial(const NodeProto& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(),
                     [](const AttributeProto& attribute) { return attribute.name == kInitial; });
}

// Returns how many bytes the results of all nodes have, or nothing where one of them cannot be
// evaluated here.
std::optional<uint64_t> bytes_to_evaluate(const Graph& graph) {
  uint64_t bytes = 0;
  for (const Node& node : graph.nodes()) {
    if (node.is(OpRole::kConstant)) continue;
    if (node.op().reference == nullptr) return std::nullopt;
    for (const Type& type : node.types()) {
      if (!type.shape.known()) return std::nullopt;
      bytes += type.shape.num_bytes(type.dtype);
    }
  }
  return bytes;
}

}  // namespace

Binding* NameTable::find(const std::string& name) {
  const auto entry = names_.find(name);
  if (entry != names_.end()) return &entry->second;
  return parent_ == nullptr ? nullptr : parent_->find(name);
}

Importer::Importer(const ModelProto& model, const ImportOptions& options, const ImportRules& rules,
                   SizeLog* sizes)
    : model_(model),
      options_(options),
      rules_(rules),
      sizes_(sizes),
      budget_(
          static_cast<uint64_t>(read_limit(model.bytes == nullptr ? 0 : model.bytes->size(), 0))),
      declared_(model, options) {
  result_.graph = std::make_unique<Graph>();
}

int64_t Importer::version_of(const std::string& domain) const {
  const auto entry = model_.opsets.find(domain);
  return entry == model_.opsets.end() ? 0 : entry->second;
}

void Importer::refuse(const NodeProto& node, const RefusedNode& refused) {
  const std::string op = op_name(node);
  const auto [entry, is_new] =
      refusal_of_.emplace(std::make_pair(op, refused.reason), refusals_.size());
  if (is_new) refusals_.push_back({op, version_of(node.domain), {}, refused.reason, {}});
  Refusal& refusal = refusals_[entry->second];
  refusal.nodes.push_back(node_name(node));
  refusal.bind.insert(refusal.bind.end(), refused.bind.begin(), refused.bind.end());
}

void Importer::take(uint64_t bytes) {
  if (bytes > budget_ - taken_)
    throw over_read_budget(model_.source, "values that are computed at import", budget_);
  taken_ += bytes;
}

void Importer::require_nothing_refused() const {
  if (!refusals_.empty()) throw Unsupported(model_.source, refusals_, unchecked_nodes());
}

std::vector<std::string> Importer::unchecked_nodes() const {
  std::vector<std::string> names;
  for (const NodeProto* node : unchecked_) {
    if (checked_.count(node) == 0 && rules_.find(node->domain, node->op) != nullptr)
      names.push_back(node_name(*node));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// ---- what can be said before anything is built

void Importer::check_value(const ValueInfo& info, const char* what) {
  NodeProto node;
  node.name = info.name;
  node.op = what;
  if (may_be_imported(info)) return;
  if (info.kind == ValueInfo::Kind::kTensor || info.kind == ValueInfo::Kind::kUnknown)
    refuse(node, {"is of " + name_of(info.type) + ", which Keel has no dtype for"});
  else
    refuse(node, {std::string("is ") + kind_name(info.kind) + ", which Keel has no type for"});
}

void Importer::check_graph(const GraphProto& graph) {
  if (!known_graphs_.insert(&graph).second) return;
  nodes_of_file_ += graph.nodes.size();
  for (const ValueInfo& info : graph.inputs) check_value(info, "input");
  for (const ValueInfo& info : graph.outputs) check_value(info, "output");
  for (const TensorProto& tensor : graph.initializers)
    check_value({tensor.name, ValueInfo::Kind::kTensor, tensor.type, {}}, "initializer");
  for (const std::string& name : graph.sparse_initializers)
    check_value({name, ValueInfo::Kind::kSparseTensor, {}, {}}, "initializer");
  for (const NodeProto& node : graph.nodes) {
    if (rules_.find(node.domain, node.op) == nullptr)
      refuse(node, {"there is no rule for this op"});
    for (const AttributeProto& attribute : node.attributes)
      if (attribute.graph != nullptr) check_graph(*attribute.graph);
  }
}

// ---- names of the model

void Importer::add_initializers(const GraphProto& graph, NameTable& names) {
  for (const TensorProto& proto : graph.initializers) {
    Binding binding;
    if (proto.type != DataType::kUndefined && !dtype_of(proto.type)) {
      binding.refused = true;
      names.set(proto.name, std::move(binding));
      continue;
    }
    binding.known = to_tensor(proto, model_.source);
    binding.initializer = &proto;
    if (is_float(binding.known->dtype()) && !is_a_bound(*binding.known)) binding.state = proto.name;
    names.set(proto.name, std::move(binding));
  }
  for (const std::string& name : graph.sparse_initializers) names.set(name, {.refused = true});
}

Binding Importer::bound_input(const ValueInfo& info) {
  if (!may_be_imported(info)) return {.refused = true};  // told of already
  const auto given = options_.bind.find(info.name);
  const DType dtype = dtype_of(info.type).value_or(f32);
  NodeProto node;
  node.name = info.name;
  node.op = "input";
  Shape shape;
  try {
    if (info.shape) {
      for (const Dimension& dim : *info.shape) shape.push_back(dim.size < 0 ? -1 : dim.size);
    }
    if (info.shape && given == options_.bind.end()) {
      const Value value = graph().input(info.name, dtype, shape, {});
      result_.inputs.emplace_back(info.name, value);
      return {.value = value};
    }
  } catch (const Error& error) {
    refuse(node, {error.what()});
    return {.refused = true};
  }
  if (given == options_.bind.end()) {
    refuse(node, {"has no rank in the file", {info.name}});
    return {.refused = true};
  }
  // Files of NumPy, which has no bf16, hold its values as f32.
  const Tensor& tensor = given->second;
  const bool rounds = dtype == bf16 && tensor.dtype() == f32;
  if ((tensor.dtype() != dtype && !rounds) || (info.shape && !matches(shape, tensor.shape()))) {
    throw Error({.op = model_.source,
                 .argument = "bind '" + info.name + "'",
                 .expected = to_string(Type{dtype, shape}),
                 .got = to_string(tensor.type()),
                 .kind = ErrorKind::kInvalidArgument});
  }
  return {.known = rounds ? tensor.cast(bf16, {}) : tensor};
}

void Importer::add_inputs(NameTable& names) {
  std::set<std::string> bound;
  for (const ValueInfo& info : model_.graph.inputs) {
    // An initializer of its name is a default, which a bound value replaces.
    if (names.find(info.name) != nullptr && options_.bind.count(info.name) == 0) continue;
    names.set(info.name, bound_input(info));
    bound.insert(info.name);
  }
  for (const auto& entry : options_.bind) {
    if (bound.count(entry.first) != 0) continue;
    throw Error({.op = model_.source,
                 .argument = "bind",
                 .expected = "the name of an input",
                 .got = entry.first,
                 .kind = ErrorKind::kInvalidArgument});
  }
}

Value Importer::value_of(Binding& binding, StateUse use) {
  if (binding.origins) throw RefusedNode{kFollowsFromSizes};
  return handed_on(binding, use);
}

Value Importer::handed_on(Binding& binding, StateUse use) {
  if (binding.refused) throw DependsOnRefused();
  note_read(binding);
  if (binding.value.valid()) return binding.value;
  const auto made = initializers_.find(binding.initializer);
  if (binding.initializer != nullptr && made != initializers_.end())
    return binding.value = made->second;
  binding.value = made_of(binding, use);
  note_origins(binding.value, binding.origins);
  if (binding.initializer != nullptr) initializers_.emplace(binding.initializer, binding.value);
  return binding.value;
}

Value Importer::made_of(const Binding& binding, StateUse use) {
  const Tensor& tensor = *binding.known;
  if (binding.state.empty()) return graph().constant(tensor, {});
  return add_state(binding.state, tensor, use);
}

Value Importer::add_state(const std::string& wanted, const Tensor& tensor, StateUse use) {
  std::string name = wanted;
  for (int i = 1; graph().find_state(name).valid(); ++i) name = wanted + "_" + std::to_string(i);
  Initializer initializer{.type = tensor.type()};
  if (options_.weights_in_graph) {
    initializer.kind = "value";
    initializer.value = tensor;
  }
  result_.weights.emplace(name, tensor);
  return graph().state(name, initializer, {.trainable = use == StateUse::kTrained}, {});
}

Origins Importer::origins_of(const Value& value) const {
  const Node& node = origin_of(value).node({});
  const auto entry = origins_.find(node.id());
  const bool is_noted = node.is(OpRole::kConstant) && entry != origins_.end();
  return is_noted ? Origins(entry->second) : std::nullopt;
}

void Importer::note_origins(const Value& constant, const Origins& origins) {
  if (origins) origins_.emplace(constant.node_id(), *origins);
}

void Importer::assign(const Value& state, const Value& next) {
  std::vector<Assignment>& assignments = result_.update.assignments;
  const auto [entry, is_new] = assigned_.emplace(state.node_id(), assignments.size());
  if (is_new)
    assignments.push_back({state, next});
  else
    assignments[entry->second].next = next;
}

bool operator==(const BodyArgument& a, const BodyArgument& b) {
  if (a.type != b.type || a.known.has_value() != b.known.has_value()) return false;
  if (!a.known || a.known->raw() == b.known->raw()) return true;
  return a.known->num_bytes() == b.known->num_bytes() &&
         std::memcmp(a.known->raw(), b.known->raw(), a.known->num_bytes()) == 0;
}

const std::vector<Type>* Importer::known_body_types(const GraphProto& body,
                                                    const std::vector<BodyArgument>& inputs) const {
  const auto entry = body_types_.find(&body);
  return entry == body_types_.end() || entry->second.inputs != inputs ? nullptr
                                                                      : &entry->second.outputs;
}

const std::vector<Type>& Importer::keep_body_types(const GraphProto& body,
                                                   std::vector<BodyArgument> inputs,
                                                   std::vector<Type> outputs) {
  BodyTypes& types = body_types_[&body];
  types = {std::move(inputs), std::move(outputs)};
  return types.outputs;
}

std::vector<std::string> Importer::inputs_under(const Value& value) const {
  std::vector<std::string> found;
  std::set<uint32_t> seen;
  Values open;
  if (value.valid() && &value.graph({}) == result_.graph.get()) open.push_back(value);
  while (!open.empty()) {
    const Value next = open.back();
    open.pop_back();
    if (!seen.insert(next.node_id()).second) continue;
    const Node& node = next.node({});
    if (node.is(OpRole::kInput)) found.push_back(keel::name_of(node));
    for (const Value& input : node.inputs()) open.push_back(input);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// ---- nodes

Values Importer::build(const NodeProto& node, NameTable& names, Scratch* scratch) {
  NodeContext context(*this, names, node, scratch);
  Values values = rules_.find(node.domain, node.op)(context);
  context.require_all_asked();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (i >= values.size() || !values[i].valid())
      throw RefusedNode{"its output " + std::to_string(i) + " is not computed"};
  }
  return values;
}

bool Importer::is_foldable(const NodeProto& node, NameTable& names) const {
  if (!rules_.folds(node.domain, node.op)) return false;
  for (const AttributeProto& attribute : node.attributes)
    if (attribute.graph != nullptr) return false;
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    const Binding* binding = names.find(input);
    if (binding == nullptr || !binding->known || !binding->state.empty()) return false;
  }
  return true;
}

// Says whether a node's results are to be computed here. Throws Error where an initial value does
// not fit the read budget.
bool Importer::fits(const Scratch& scratch, const NodeProto& node, const Values& values) const {
  const std::optional<uint64_t> bytes = bytes_to_evaluate(scratch.graph);
  if (!bytes) return false;
  const uint64_t left = budget_ - taken_;
  if (is_initial(node)) {
    if (*bytes > left) throw over_read_budget(model_.source, "initial values", budget_);
    return true;
  }
  if (*bytes > kMostScratchBytes) return false;
  uint64_t kept = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const Type& type = values[i].type({});
    const uint64_t size = type.shape.num_bytes(type.dtype);
    if (size > kMostFoldedBytes) return false;
    kept += size;
  }
  // Results that need not be computed here leave as much room for those that have to be.
  return taken_ + kept <= budget_ / 2;
}

// Computes the node's outputs, where it depends on nothing that runs or trains. False where it is
// better built into the graph.
bool Importer::fold(const NodeProto& node, CallSite site, NameTable& names) {
  if (!is_foldable(node, names)) return false;
  Scratch scratch;
  const SiteScope lines(scratch.graph, site);
  const Values values = build(node, names, &scratch);
  if (!fits(scratch, node, values)) return false;
  const conformance::Evaluation evaluation(scratch.graph, {});
  std::optional<OriginTable> origins;
  if (!scratch.origins.empty()) origins.emplace(scratch.graph, scratch.origins, evaluation);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const Tensor known = evaluation(values[i]);
    take(known.num_bytes());
    names.set(node.outputs[i],
              {.known = known, .origins = origins ? (*origins)(values[i]) : std::nullopt});
  }
  return true;
}

Binding Importer::stand_in(const GraphProto& graph, const std::string& name) {
  const std::optional<Type> type = declared_.find(graph, name);
  if (!type) return {.refused = true};
  const std::string input = "refused result " + std::to_string(++stand_ins_);
  try {
    return {.value = this->graph().input(input, type->dtype, type->shape, {}), .assumed = true};
  } catch (const Error&) {  // a type beyond all bounds, or a name that the model has
    return {.refused = true};
  }
}

void Importer::leave_unchecked(const GraphProto& body) {
  for (const NodeProto& node : body.nodes) {
    if (!unchecked_.insert(&node).second) continue;  // bodies that are shared, once
    for (const AttributeProto& attribute : node.attributes)
      if (attribute.graph != nullptr) leave_unchecked(*attribute.graph);
  }
}

void Importer::import_node(const GraphProto& graph, const NodeProto& node, CallSite site,
                           NameTable& names) {
  // A node in a body is one that the node around it uses, too.
  const bool read_before = std::exchange(read_assumed_, false);
  try {
    if (rules_.find(node.domain, node.op) == nullptr) throw DependsOnRefused();  // told of already
    if (!model_.opsets.contains(node.domain))
      throw RefusedNode{"the file names no version of its op set"};
    for (const std::string& input : node.inputs)
      if (!input.empty() && names.find(input) == nullptr)
        throw RefusedNode{"no node before it gives '" + input + "'"};
    for (const std::string& output : node.outputs)
      if (names.has(output)) throw RefusedNode{"another value has the name '" + output + "'"};
    checked_.insert(&node);
    if (fold(node, site, names)) {
      read_assumed_ = read_before;
      return;
    }
    const LabelScope label(this->graph(), label_of(node));
    const SiteScope lines(this->graph(), site);
    const Values values = build(node, names, nullptr);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      Binding binding{.value = values[i], .assumed = read_assumed_};
      const Node& made = values[i].node({});
      if (made.is(OpRole::kConstant)) binding.known = made.as<ConstantAttributes>().value;
      binding.origins = origins_of(values[i]);
      // What a rule gives as a known result lies in no graph that lasts.
      if (binding.known && made.inputs().empty()) binding.value = Value();
      names.set(node.outputs[i], std::move(binding));
    }
    read_assumed_ = read_assumed_ || read_before;
    return;
  } catch (const RefusedNode& refused) {
    if (refused_.insert(&node).second) refuse(node, refused);
  } catch (const DependsOnRefused&) {
    checked_.erase(&node);
    unchecked_.insert(&node);
  } catch (const Error& error) {
    if (refused_.insert(&node).second) refuse(node, {text_at(error, site)});
  }
  read_assumed_ = read_before;
  for (const AttributeProto& attribute : node.attributes)
    if (attribute.graph != nullptr) leave_unchecked(*attribute.graph);
  for (const std::string& output : node.outputs)
    if (!output.empty()) names.set(output, stand_in(graph, output));
}

void Importer::import_nodes(const GraphProto& graph, NameTable& names) {
  CallSite site{intern_file(model_.source), 0};
  for (const NodeProto& node : graph.nodes) {
    ++site.line;
    if (++nodes_imported_ > kMostNodes + kMostImportsOfANode * nodes_of_file_) {
      throw Error({.op = model_.source,
                   .message = "its functions call each other so often that they have more than " +
                              std::to_string(nodes_imported_ - 1) + " nodes"});
    }
    import_node(graph, node, {site.file, node.place != 0 ? node.place : site.line}, names);
  }
}

// ---- results

// Gives the value that name where it can bear it; else a node with the same elements.
Value Importer::named_output(Value value, const std::string& name) {
  const Node& node = value.node({});
  const bool source = node.has(kSource) || node.is(OpRole::kInput) || node.is(OpRole::kState);
  // A reshape would need to know all dimensions but one; here each keeps what it is in the run.
  const Shape own(std::vector<int64_t>(value.shape({}).rank(), kUnknownDim));
  if (source || node.types().size() != 1 || !node.label().name.empty())
    value = broadcast_to(value, own, {});
  const bool usable =
      name.find(':') == std::string::npos && printable(name) == name && !name.empty();
  if (usable && !graph().find_input(name).valid() && !graph().find_state(name).valid()) {
    // Its name is the whole of what users call it by.
    graph().relabel(value.node({}), nullptr);
    value = named(value, name, {});
  }
  return value;
}

void Importer::add_outputs(NameTable& names) {
  Values outputs;
  for (const ValueInfo& info : model_.graph.outputs) {
    const Value value =
        named_output(value_of(*names.find(info.name), StateUse::kTrained), info.name);
    outputs.push_back(value);
    result_.outputs.emplace_back(info.name, value);
  }
  graph().set_outputs(outputs, {});
  for (const Assignment& update : result_.update.assignments)
    graph().add_update(update.state, update.next, {});
}

ImportedModel Importer::run() {
  check_graph(model_.graph);
  NodeProto whole;
  whole.name = model_.source;
  whole.op = "model";
  const auto own_ops = model_.opsets.find("");
  if (own_ops != model_.opsets.end() && own_ops->second > kLastOpset) {
    refuse(whole,
           {"its op set is " + std::to_string(own_ops->second) + ", and Keel reads those up to " +
            std::to_string(kLastOpset) + "; export or convert it to one of these"});
  }
  if (model_.has_functions) refuse(whole, {"it has functions of its own, which are not imported"});
  std::set<std::string> inputs;
  for (const ValueInfo& info : model_.graph.inputs)
    if (!inputs.insert(info.name).second)
      refuse(whole, {"two of its inputs are '" + info.name + "'"});

  NameTable names;
  add_initializers(model_.graph, names);
  add_inputs(names);
  import_nodes(model_.graph, names);
  for (const ValueInfo& info : model_.graph.outputs) {
    NodeProto output;
    output.name = info.name;
    output.op = "output";
    const Binding* binding = names.find(info.name);
    if (binding == nullptr) refuse(output, {"no node gives it"});
    if (binding != nullptr && binding->origins) refuse(output, {kFollowsFromSizes});
  }
  require_nothing_refused();
  add_outputs(names);
  return std::move(result_);
}

}  // namespace keel::onnx
