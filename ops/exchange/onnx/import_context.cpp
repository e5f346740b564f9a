// NodeContext: what a rule asks of its node.
#include <algorithm>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/graph/ir/captures.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/importer.h"

namespace keel::onnx {
namespace {

const char* type_name(AttributeType type) {
  static constexpr const char* kNames[] = {"undefined", "a float", "an integer", "a string",
                                           "a tensor",  "a graph", "floats",     "integers",
                                           "strings",   "tensors", "graphs"};
  const auto number = static_cast<size_t>(type);
  return number < std::size(kNames) ? kNames[number] : "of another type";
}

// Returns the constant that a value is, also where that is one of the graph around it.
std::optional<Tensor> known_tensor(const Value& value) {
  const Node& node = origin_of(value).node({});
  if (!node.is(OpRole::kConstant)) return std::nullopt;
  return node.as<ConstantAttributes>().value;
}

void require_list(const NodeContext& c, const Tensor& tensor, const char* what) {
  const Shape& shape = tensor.shape();
  if (shape.rank() > 1) {
    c.refuse(std::string(what) + " " + to_string(shape) + " of " + std::to_string(shape.rank()) +
             " dimensions, where it takes a list");
  }
}

}  // namespace

NodeContext::NodeContext(Importer& importer, NameTable& names, const NodeProto& node,
                         Scratch* scratch)
    : importer_(importer), names_(names), node_(node), scratch_(scratch) {}

int64_t NodeContext::version() const { return importer_.version_of(node_.domain); }

Graph& NodeContext::graph() { return scratch_ != nullptr ? scratch_->graph : importer_.graph(); }

void NodeContext::refuse(const std::string& reason) const { throw RefusedNode{reason}; }

// ---- inputs

bool NodeContext::has(size_t i) const {
  asked_inputs_.insert(i);
  return i < node_.inputs.size() && !node_.inputs[i].empty();
}

Value NodeContext::in(size_t i, StateUse use) {
  if (!has(i)) refuse("its input " + std::to_string(i) + " is missing");
  return value_named(node_.inputs[i], use);
}

Value NodeContext::value_named(const std::string& name, StateUse use) {
  Binding* binding = names_.find(name);
  if (binding == nullptr) refuse("no node before it gives '" + name + "'");
  if (scratch_ == nullptr) return importer_.value_of(*binding, use);
  return scratch_value(name, *binding);
}

Value NodeContext::handed_on(size_t i) {
  Binding* binding = has(i) ? names_.find(node_.inputs[i]) : nullptr;
  if (binding == nullptr || !binding->origins || scratch_ != nullptr) return in(i);
  return importer_.handed_on(*binding, StateUse::kTrained);
}

Value NodeContext::scratch_value(const std::string& name, const Binding& binding) {
  Value& value = scratch_values_[name];
  if (value.valid()) return value;
  value = scratch_->graph.constant(binding.known.value(), {});
  if (binding.origins) scratch_->origins.emplace(value.node_id(), *binding.origins);
  return value;
}

Values NodeContext::all() {
  Values values;
  for (size_t i = 0; i < inputs(); ++i) values.push_back(in(i));
  return values;
}

std::optional<Tensor> NodeContext::known(size_t i) const {
  return has(i) ? known_named(node_.inputs[i]) : std::nullopt;
}

std::optional<Tensor> NodeContext::known_named(const std::string& name) const {
  const Binding* binding = names_.find(name);
  if (binding == nullptr) return std::nullopt;
  if (binding->lost()) throw DependsOnRefused();
  if (binding->origins) throw RefusedNode{kFollowsFromSizes};
  return binding->known;
}

bool NodeContext::is_constant(size_t i) const {
  if (!has(i)) return false;
  const Binding* binding = names_.find(node_.inputs[i]);
  if (binding != nullptr && binding->lost()) throw DependsOnRefused();
  return binding != nullptr && binding->known && binding->state.empty();
}

Tensor NodeContext::constant(size_t i, const char* what) {
  if (!has(i)) refuse("its input " + std::to_string(i) + " is missing");
  if (const std::optional<Tensor> tensor = known(i)) return *tensor;
  throw RefusedNode{std::string(what) + " is not known before the run; bind it",
                    importer_.inputs_under(in(i))};
}

std::vector<int64_t> NodeContext::integers_in(const Tensor& tensor, const char* what) const {
  if (!is_integer(tensor.dtype())) refuse(std::string(what) + " holds no integers");
  const Tensor wide = tensor.cast(i64, {});
  const auto values = wide.data<int64_t>();
  return {values.begin(), values.end()};
}

std::vector<int64_t> NodeContext::integers(size_t i, const char* what) {
  return integers_in(constant(i, what), what);
}

std::vector<int64_t> NodeContext::list(size_t i, const char* what) {
  const Tensor tensor = constant(i, what);
  require_list(*this, tensor, what);
  return integers_in(tensor, what);
}

SizeNumbers NodeContext::sizes(size_t i, const char* what) {
  const Binding* binding = has(i) ? names_.find(node_.inputs[i]) : nullptr;
  if (binding == nullptr || !binding->origins) {
    const std::vector<int64_t> values = list(i, what);
    return {values, std::vector<Origin>(values.size(), Origin::kFile)};
  }
  require_list(*this, *binding->known, what);
  SizeNumbers numbers{integers_in(*binding->known, what), {}};
  for (const int64_t origin : binding->origins->data<int64_t>())
    numbers.origins.push_back(static_cast<Origin>(origin));
  return numbers;
}

int64_t NodeContext::fixed(const SizeNumbers& numbers, size_t i) const {
  if (numbers.origins[i] != Origin::kFile) refuse(kFollowsFromSizes);
  return numbers.values[i];
}

bool NodeContext::is_open(int64_t dim) {
  return dim < 0 || (importer_.sizes() != nullptr && importer_.sizes()->read({dim})[0]);
}

int64_t NodeContext::integer(size_t i, const char* what) {
  const std::vector<int64_t> values = integers(i, what);
  if (values.size() != 1) refuse(std::string(what) + " is not one number");
  return values[0];
}

std::vector<double> NodeContext::numbers(size_t i, const char* what) {
  const Tensor tensor = constant(i, what);
  require_list(*this, tensor, what);
  const Tensor wide = tensor.cast(f64, {});
  const auto values = wide.data<double>();
  return {values.begin(), values.end()};
}

double NodeContext::number(size_t i, const char* what) {
  const Tensor tensor = constant(i, what);
  if (tensor.num_elements() != 1) refuse(std::string(what) + " is not one number");
  return tensor.cast(f64, {}).at(0);
}

void NodeContext::require_rank(const Value& value, size_t least, size_t most,
                               const char* what) const {
  const Shape& shape = value.shape({});
  if (shape.rank() >= least && shape.rank() <= most) return;
  refuse(std::string(what) + " " + to_string(shape) + " of " + std::to_string(shape.rank()) +
         " dimensions, where it takes " + std::to_string(least) +
         (most == least             ? ""
          : most == Shape::kMaxRank ? " or more"
                                    : " to " + std::to_string(most)));
}

void NodeContext::require_shape(const Value& value, const Shape& shape, const char* what) const {
  const Shape& own = value.shape({});
  bool fits = own.rank() == shape.rank();
  for (size_t i = 0; fits && i < own.rank(); ++i)
    fits = own[i] == shape[i] || own[i] < 0 || shape[i] < 0;
  if (!fits)
    refuse(std::string(what) + " " + to_string(own) + ", where it takes " + to_string(shape));
}

void NodeContext::require_broadcast(const Value& value, const Shape& to, const char* what) const {
  const Shape& own = value.shape({});
  bool fits = own.rank() <= to.rank();
  for (size_t i = 0; fits && i < own.rank(); ++i) {
    const int64_t dim = to[to.rank() - own.rank() + i];
    fits = own[i] == dim || own[i] == 1 || own[i] < 0 || dim < 0;
  }
  if (!fits)
    refuse(std::string(what) + " " + to_string(own) + ", which does not broadcast to " +
           to_string(to));
}

Shape NodeContext::known_shape(const Value& value, const char* what) {
  const Shape& shape = value.shape({});
  if (shape.known()) return shape;
  throw RefusedNode{std::string("the dimensions of ") + what +
                    " are not known before the run: " + to_string(shape)};
}

// ---- attributes

const AttributeProto* NodeContext::find_attribute(const std::string& name) {
  asked_.insert(name);
  for (const AttributeProto& attribute : node_.attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

bool NodeContext::has_attribute(const std::string& name) const {
  for (const AttributeProto& attribute : node_.attributes)
    if (attribute.name == name) return true;
  return false;
}

const AttributeProto* NodeContext::typed(const std::string& name, AttributeType type) {
  const AttributeProto* attribute = find_attribute(name);
  if (attribute == nullptr || attribute->type == type) return attribute;
  refuse("its attribute " + name + " is " + type_name(attribute->type) + ", not " +
         type_name(type));
}

int64_t NodeContext::attribute(const std::string& name, int64_t otherwise) {
  const AttributeProto* attribute = typed(name, AttributeType::kInt);
  return attribute == nullptr ? otherwise : attribute->i;
}

double NodeContext::attribute(const std::string& name, double otherwise) {
  const AttributeProto* attribute = typed(name, AttributeType::kFloat);
  return attribute == nullptr ? otherwise : static_cast<double>(attribute->f);
}

std::string NodeContext::attribute(const std::string& name, const char* otherwise) {
  const AttributeProto* attribute = typed(name, AttributeType::kString);
  return attribute == nullptr ? otherwise : attribute->s;
}

std::string NodeContext::choice(const std::string& name, const std::vector<std::string>& choices) {
  std::string given = attribute(name, choices.front().c_str());
  if (std::find(choices.begin(), choices.end(), given) == choices.end())
    refuse("its " + name + " is '" + given + "'");
  return given;
}

std::vector<int64_t> NodeContext::attribute(const std::string& name,
                                            const std::vector<int64_t>& otherwise) {
  const AttributeProto* attribute = typed(name, AttributeType::kInts);
  return attribute == nullptr ? otherwise : attribute->ints;
}

std::optional<Tensor> NodeContext::tensor_attribute(const std::string& name) {
  const AttributeProto* attribute = typed(name, AttributeType::kTensor);
  if (attribute == nullptr || attribute->tensor == nullptr) return std::nullopt;
  return tensor_of(*attribute->tensor);
}

Tensor NodeContext::tensor_of(const TensorProto& proto) const {
  Tensor tensor = to_tensor(proto, importer_.model().source);
  if (proto.external) importer_.give(tensor.num_bytes());
  return tensor;
}

std::shared_ptr<const GraphProto> NodeContext::graph_attribute(const std::string& name) {
  const AttributeProto* attribute = typed(name, AttributeType::kGraph);
  if (attribute == nullptr || attribute->graph == nullptr) refuse("it lacks the graph " + name);
  return attribute->graph;
}

DType NodeContext::dtype_attribute(const std::string& name, DType otherwise) {
  return has_attribute(name) ? dtype_attribute(name) : otherwise;
}

DType NodeContext::dtype_attribute(const std::string& name) {
  if (!has_attribute(name)) refuse("its attribute " + name + " is missing");
  const auto type = static_cast<DataType>(attribute(name, int64_t{0}));
  const std::optional<DType> dtype = dtype_of(type);
  if (!dtype)
    refuse("its attribute " + name + " is " + onnx::name_of(type) +
           ", which Keel has no dtype for");
  return *dtype;
}

void NodeContext::require_all_asked() const {
  for (const AttributeProto& attribute : node_.attributes) {
    if (asked_.count(attribute.name) == 0 && !attribute.needs_no_rule)
      refuse("its attribute " + attribute.name + " is not known in this version of the op");
  }
  for (size_t i = 0; i < node_.inputs.size(); ++i) {
    if (!node_.inputs[i].empty() && asked_inputs_.count(i) == 0)
      refuse("its input " + std::to_string(i) + " is not known in this version of the op");
  }
}

// ---- results

Value NodeContext::result(const Tensor& tensor) {
  // Constants of a graph that is thrown away are counted where something of it is kept.
  if (scratch_ == nullptr) importer_.take(tensor.num_bytes());
  return graph().constant(tensor, {});
}

Value NodeContext::result_of_sizes(const Tensor& numbers, DType dtype) {
  const Value value = result(numbers.cast(dtype, {}));
  if (importer_.sizes() == nullptr) return value;
  const auto sizes = numbers.data<int64_t>();
  const Origins origins =
      origins_of_sizes(importer_.sizes()->read({sizes.begin(), sizes.end()}), numbers.shape());
  if (scratch_ == nullptr)
    importer_.note_origins(value, origins);
  else if (origins)
    scratch_->origins.emplace(value.node_id(), *origins);
  return value;
}

Value NodeContext::state(const std::string& name, const Tensor& value, StateUse use) {
  return importer_.add_state(name, value, use);
}

void NodeContext::assign(const Value& state, const Value& next) {
  if (!state.node({}).is(OpRole::kState)) refuse("what it assigns to is no variable");
  importer_.assign(state, next);
}

// Other graphs come and go, and a later one would use the same numbers for its nodes.
void NodeContext::note(const Value& value, std::unordered_set<double> numbers) {
  if (&value.graph({}) == &importer_.graph())
    importer_.notes()[value.node_id()] = std::move(numbers);
}

std::optional<std::unordered_set<double>> NodeContext::take_note(const Value& value) {
  if (&value.graph({}) != &importer_.graph()) return std::nullopt;
  auto noted = importer_.notes().extract(value.node_id());
  if (noted.empty()) return std::nullopt;
  return std::move(noted.mapped());
}

Graph& NodeContext::place() { return importer_.place(); }

Values NodeContext::body(const GraphProto& graph, const Values& inputs, Graph& place) {
  const Importer::PlaceScope scope(importer_, place);
  NameTable names(&names_);
  importer_.add_initializers(graph, names);
  if (inputs.size() != graph.inputs.size()) {
    refuse("its body has " + std::to_string(graph.inputs.size()) + " inputs for " +
           std::to_string(inputs.size()) + " values");
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    names.set(graph.inputs[i].name, {.value = inputs[i],
                                     .known = known_tensor(inputs[i]),
                                     .origins = importer_.origins_of(inputs[i])});
  importer_.import_nodes(graph, names);
  Values outputs;
  for (const ValueInfo& info : graph.outputs) {
    Binding* binding = names.find(info.name);
    if (binding == nullptr) refuse("no node of its body gives '" + info.name + "'");
    outputs.push_back(importer_.handed_on(*binding, StateUse::kTrained));
  }
  return outputs;
}

bool NodeContext::computes_both_branches() const { return importer_.options().both_branches; }

std::vector<Type> NodeContext::body_types(const GraphProto& graph, const Values& inputs,
                                          const std::vector<bool>& fixed) {
  std::vector<BodyArgument> given;
  for (size_t i = 0; i < inputs.size(); ++i)
    given.push_back(
        {inputs[i].type({}), fixed[i] ? known_tensor(inputs[i]) : std::optional<Tensor>()});
  if (const auto* types = importer_.known_body_types(graph, given)) return *types;
  Graph probe(&place(), {});
  Values stand_ins;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [type, known] = given[i];
    stand_ins.push_back(known ? probe.capture(inputs[i])
                              : probe.input("x" + std::to_string(i), type.dtype, type.shape, {}));
  }
  std::vector<Type> types;
  for (const Value& value : body(graph, stand_ins, probe)) types.push_back(value.type({}));
  return importer_.keep_body_types(graph, std::move(given), std::move(types));
}

}  // namespace keel::onnx
