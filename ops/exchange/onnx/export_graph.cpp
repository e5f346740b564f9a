#include "keel/ops/exchange/onnx/export_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/passes/freeze.h"
#include "keel/ops/queue.h"

namespace keel::onnx {
namespace {

// Constants of at most so many bytes are written once for all who use them.
constexpr size_t kSharedConstantBytes = 256;
constexpr size_t kMostConstantBytes = size_t{64} << 10;  // of a node that is a constant

// The one value of all elements, where there is one.
std::optional<double> splat_of(const Tensor& value) {
  if (value.num_elements() == 0) return std::nullopt;
  const size_t size = size_of(value.dtype());
  const auto* bytes = static_cast<const char*>(value.raw());
  for (int64_t i = 1; i < value.num_elements(); ++i) {
    if (std::memcmp(bytes, bytes + static_cast<size_t>(i) * size, size) != 0) return std::nullopt;
  }
  return value.at(0);
}

// Returns whether two graphs of the same model differ in dimensions alone.
bool same_structure(const Node& a, const Node& b) {
  if (a.op_name() != b.op_name() || a.inputs().size() != b.inputs().size() ||
      a.types().size() != b.types().size() || a.bodies().size() != b.bodies().size())
    return false;
  for (size_t i = 0; i < a.inputs().size(); ++i) {
    if (a.input(i).node_id() != b.input(i).node_id() || a.input(i).output() != b.input(i).output())
      return false;
  }
  for (size_t i = 0; i < a.types().size(); ++i) {
    if (a.type(i).dtype != b.type(i).dtype || a.type(i).shape.rank() != b.type(i).shape.rank())
      return false;
  }
  return true;
}

void require_twins(const TwinGraphs& graphs) {
  for (const Graph* twin : graphs) {
    bool same =
        twin->size() == graphs[0]->size() && twin->outputs().size() == graphs[0]->outputs().size();
    for (uint32_t id = 0; same && id < twin->size(); ++id)
      same = same_structure(graphs[0]->node(id), twin->node(id));
    if (same) continue;
    throw Error({.op = "onnx::save",
                 .message = "the model is computed in other ways for other sizes of the batch",
                 .fix = "export it for one size: SaveOptions::batch, or keel export --batch"});
  }
}

// "10", "batch", "2*batch+1".
std::string text_of(const ExportDimension& dim) {
  if (dim.fixed()) return std::to_string(dim.size);
  std::string text = dim.per_batch == 1 ? "batch" : std::to_string(dim.per_batch) + "*batch";
  if (dim.size != 0) text += (dim.size > 0 ? "+" : "") + std::to_string(dim.size);
  return text;
}

// "f32[batch, 512]".
std::string described_type(const std::vector<const Node*>& twins) {
  const Type& first = twins[0]->type();
  std::string text;
  for (size_t axis = 0; axis < first.shape.rank(); ++axis) {
    std::vector<int64_t> sizes;
    for (const Node* twin : twins) sizes.push_back(twin->type().shape[axis]);
    const auto dim = dimension_of(sizes);
    text += (axis == 0 ? "" : ", ") + (dim ? text_of(*dim) : "?");
  }
  return std::string(name_of(first.dtype)) + "[" + text + "]";
}

// Empty where the rule writes the node.
std::string reason_against(const Node& node, const ExportRule* rule) {
  if (rule != nullptr) return rule->refuses == nullptr ? "" : rule->refuses(node);
  const std::string none = "has no ONNX form";
  return node.has(kRandom) ? none + ": it draws random numbers, as training does" : none;
}

}  // namespace

std::string described_node(const std::vector<const Node*>& twins, const std::string& reason) {
  const Node& node = *twins[0];
  std::string text = display_name(node) + " (" + node.op_name();
  if (!node.data_types().empty()) text += " " + described_type(twins);
  text += ")";
  if (!reason.empty()) text += ": " + reason;
  return text + " (" + to_string(node.site()) + ")";
}

ExportDimensions dimensions_of(const std::vector<const Shape*>& shapes, const std::string& what) {
  ExportDimensions dims;
  for (size_t axis = 0; axis < shapes[0]->rank(); ++axis) {
    std::vector<int64_t> values;
    for (const Shape* shape : shapes) values.push_back((*shape)[axis]);
    const auto dim = dimension_of(values);
    if (!dim) {
      throw Error("dimension " + std::to_string(axis) + " of " + what +
                  " is no multiple of the batch plus a constant");
    }
    dims.push_back(*dim);
  }
  return dims;
}

WrittenValue described_value(const std::string& name, const std::vector<Type>& twins) {
  WrittenValue value{.name = name, .dtype = twins[0].dtype, .shape = {}};
  std::vector<const Shape*> shapes;
  for (const Type& type : twins) shapes.push_back(&type.shape);
  for (const ExportDimension& dim : dimensions_of(shapes, "a value")) {
    if (dim.fixed()) {
      value.shape.push_back({.size = dim.size});
      continue;
    }
    value.shape.push_back({.size = 0, .symbol = text_of(dim)});
  }
  return value;
}

// ---- names

void GraphExporter::reserve(const std::string& name, const std::string& what) {
  if (taken_.contains(name)) {
    throw Error({.op = "onnx::save",
                 .argument = what,
                 .expected = "a name that no other input, state or output has",
                 .got = "'" + name + "'"});
  }
  taken_[name] = 0;
}

std::string GraphExporter::unique(const std::string& name) {
  const auto [it, fresh] = taken_.try_emplace(name, 0);
  if (fresh) return name;
  for (;;) {
    std::string next = name + "_" + std::to_string(++it->second);
    if (taken_.contains(next)) continue;
    taken_[next] = 0;
    return next;
  }
}

// ---- nodes

ExportNames GraphExporter::add_node(const Node& source, const std::string& type,
                                    const ExportNames& inputs, size_t outputs,
                                    WrittenAttributes attributes) {
  const std::string base = display_name(source) + "/" + type;
  WrittenNode node{.op_type = type,
                   .name = unique(base),
                   .inputs = inputs,
                   .outputs = {},
                   .attributes = std::move(attributes)};
  for (size_t i = 0; i < outputs; ++i) {
    node.outputs.push_back(i == 0 ? node.name : unique(base));
    open_.back().made.insert(node.outputs.back());
  }
  open_.back().nodes.push_back(node);
  return node.outputs;
}

std::string GraphExporter::settle(const Node& source, const std::string& made,
                                  const std::string& name, size_t first) {
  OpenGraph& graph = open_.back();
  for (size_t i = first; i < graph.nodes.size(); ++i) {
    auto& outputs = graph.nodes[i].outputs;
    const auto found = std::find(outputs.begin(), outputs.end(), made);
    if (found == outputs.end()) continue;
    if (found == outputs.begin()) graph.nodes[i].name = name;
    *found = name;
    for (size_t later = i + 1; later < graph.nodes.size(); ++later) {
      auto& inputs = graph.nodes[later].inputs;
      std::replace(inputs.begin(), inputs.end(), made, name);
    }
    graph.made.erase(made);
    graph.made.insert(name);
    return name;
  }
  const std::string copy = add_node(source, "Identity", {made}, 1, {})[0];
  return settle(source, copy, name, graph.nodes.size() - 1);
}

std::string GraphExporter::write_state(const Node& node) {
  const std::string& name = name_of(node);
  if (!written_states_.insert(name).second) return name;
  const auto it = states_.find(name);
  if (it == states_.end()) {
    add_problem("state " + name + " has no value among those given");
    return name;
  }
  if (it->second.type() != node.type()) {
    add_problem("state " + name + " is " + to_string(node.type()) + ", and its value " +
                to_string(it->second.type()));
    return name;
  }
  model_.graph.initializers.push_back({name, it->second});
  return name;
}

std::string GraphExporter::constant(const Tensor& value) {
  const bool shared = value.num_bytes() <= kSharedConstantBytes;
  std::string key;
  if (shared) {
    key = to_string(value.type()) + ":";
    key.append(static_cast<const char*>(value.raw()), value.num_bytes());
    const auto it = constants_.find(key);
    if (it != constants_.end()) return it->second;
  }
  std::string name = unique("constant");
  // An importer that trains takes initializers of floats for weights. Large tensors are
  // initializers all the same, which alone may lie in a file of their own.
  if (is_float(value.dtype()) && value.num_bytes() <= kMostConstantBytes)
    preamble_.push_back({"Constant", name, {}, {name}, {{"value", value}}});
  else
    model_.graph.initializers.push_back({name, value});
  if (shared) constants_[key] = name;
  return name;
}

// A weight of a frozen model: an initializer of any size, so that whoever imports the file computes
// nothing of it beforehand.
std::string GraphExporter::write_weight(const Node& node) {
  std::string name = unique(node.label().name.empty() ? "weight" : full_name(node));
  model_.graph.initializers.push_back({name, node.as<ConstantAttributes>().value});
  return name;
}

// A constant that was computed from the size of the batch: it is computed again where it is a
// multiple of it plus a constant.
std::string GraphExporter::write_constant(const std::vector<const Node*>& twins) {
  const Node& node = *twins[0];
  const Tensor& value = node.as<ConstantAttributes>().value;
  bool same = true;
  std::vector<int64_t> whole;
  std::vector<const Shape*> shapes;
  for (const Node* twin : twins) {
    const Tensor& own = twin->as<ConstantAttributes>().value;
    same = same && attribute_equal(AttributeValue(value), AttributeValue(own));
    shapes.push_back(&own.shape());
    const auto splat = splat_of(own);
    if (splat && std::floor(*splat) == *splat && std::fabs(*splat) < 0x1p52)
      whole.push_back(static_cast<int64_t>(*splat));
  }
  if (same && is_marked(node, kFoldAttribute, kExactFold)) return write_weight(node);
  if (same) return constant(value);
  std::optional<ExportDimension> dim;
  if (whole.size() == twins.size()) dim = dimension_of(whole);
  if (!dim) throw Error("a constant depends on the size of the batch");
  std::string scalar = in_preamble("Squeeze", {dimensions({*dim})}, {}, "batch/number");
  scalar = in_preamble("Cast", {scalar}, {{"to", static_cast<int64_t>(onnx_type(value.dtype()))}},
                       "batch/number");
  if (value.shape().rank() == 0) return scalar;
  return in_preamble("Expand", {scalar, dimensions(dimensions_of(shapes, "a constant"))}, {},
                     "batch/numbers");
}

void GraphExporter::write_by_rule(const std::vector<const Node*>& twins,
                                  ValueTable<std::string>& names,
                                  const ValueTable<std::string>& wanted) {
  const Node& node = *twins[0];
  const ExportRule* rule = export_rules().find(node.op_name());
  const std::string reason = reason_against(node, rule);
  if (!reason.empty()) throw Error(reason);
  ExportNames inputs;
  for (const Value& input : node.data_inputs()) inputs.push_back(names[input]);
  const size_t first = open_.back().nodes.size();
  ExportContext context(*this, twins, inputs, rule->dtypes);
  ExportNames results = rule->write(context);
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = context.cast(results[i], context.result_dtype(i), node.type(i).dtype);
  std::unordered_set<std::string> settled;  // results that have their names
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = wanted[node.output(i)];
    if (settled.contains(results[i]) && !name.empty())
      results[i] = add_node(node, "Identity", {results[i]}, 1, {})[0];
    const bool own = std::any_of(open_.back().nodes.begin() + static_cast<std::ptrdiff_t>(first),
                                 open_.back().nodes.end(), [&](const WrittenNode& made) {
                                   return std::find(made.outputs.begin(), made.outputs.end(),
                                                    results[i]) != made.outputs.end();
                                 });
    // A value that the rule hands on as it is has a name already.
    if (settled.contains(results[i]) || (name.empty() && !own)) {
      names[node.output(i)] = results[i];
      continue;
    }
    const std::string suffix = i == 0 ? "" : ":" + std::to_string(i);
    const std::string settled_name = name.empty() ? unique(display_name(node) + suffix) : name;
    names[node.output(i)] = settle(node, results[i], settled_name, first);
    settled.insert(settled_name);
    const std::string made = results[i];
    std::replace(results.begin(), results.end(), made, settled_name);
  }
}

void GraphExporter::write_node(const std::vector<const Node*>& twins,
                               ValueTable<std::string>& names,
                               const ValueTable<std::string>& wanted) {
  const Node& node = *twins[0];
  if (node.is(OpRole::kInput) || node.is(OpRole::kToken)) return;
  if (node.is(OpRole::kState)) {
    names[node.output()] = write_state(node);
  } else if (node.is(OpRole::kConstant)) {
    names[node.output()] = write_constant(twins);
  } else if (node.is(OpRole::kDequeue)) {
    const auto& fields = node.as<DequeueAttributes>();
    for (size_t i = 0; i < fields.names.size(); ++i) {
      names[node.output(i)] = unique(fields.names[i]);
      add_input(described_value(names[node.output(i)], {node.type(i)}));
    }
  } else {
    write_by_rule(twins, names, wanted);
  }
}

ExportNames GraphExporter::write_nodes(const TwinGraphs& graphs, const ExportNames& inputs,
                                       const ExportNames& wanted) {
  require_twins(graphs);
  const Graph& graph = *graphs[0];
  ValueTable<std::string> names(graph);
  ValueTable<std::string> wanted_names(graph);
  for (size_t i = 0; i < graph.inputs().size(); ++i) names[graph.inputs()[i]] = inputs.at(i);
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::string& name = wanted_names[graph.outputs()[i]];
    if (name.empty() && !graph.outputs()[i].node().has(kSource)) name = wanted[i];
  }
  const std::vector<bool> live = live_nodes(graph);
  for (const Node& node : graph.nodes()) {
    if (!live[node.id()]) continue;
    std::vector<const Node*> twins;
    for (const Graph* twin : graphs) twins.push_back(&twin->node(node.id()));
    const size_t bodies = open_.size();
    try {
      write_node(twins, names, wanted_names);
    } catch (const Error& error) {
      open_.resize(bodies);
      add_problem(described_node(
          twins, error.info().message.empty() ? error.what() : error.info().message));
    }
  }
  ExportNames outputs;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    std::string name = names[graph.outputs()[i]];
    if (!wanted.empty() && name != wanted[i]) {
      const Node& source = graph.outputs()[i].node();
      const std::string copy = add_node(source, "Identity", {name}, 1, {})[0];
      name = settle(source, copy, wanted[i], open_.back().nodes.size() - 1);
    }
    outputs.push_back(name);
  }
  return outputs;
}

std::shared_ptr<const WrittenGraph> GraphExporter::close_body(
    const Node& source, const std::string& name, std::vector<WrittenValue> inputs,
    const ExportNames& outputs, const std::vector<WrittenValue>& types) {
  auto body = std::make_shared<WrittenGraph>();
  body->name = unique(display_name(source) + "/" + name);
  body->inputs = std::move(inputs);
  std::unordered_set<std::string> given;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string output = outputs[i];
    // An output is a value of the body's own, and each once.
    if (!open_.back().made.contains(output) || !given.insert(output).second)
      output = add_node(source, "Identity", {output}, 1, {})[0];
    given.insert(output);
    body->outputs.push_back(types[i]);
    body->outputs.back().name = output;
  }
  body->nodes = std::move(open_.back().nodes);
  open_.pop_back();
  return body;
}

// ---- dimensions

void GraphExporter::set_batch_source(const std::string& input, size_t axis) {
  batch_input_ = input;
  batch_axis_ = axis;
}

std::string GraphExporter::in_preamble(const std::string& type, const ExportNames& inputs,
                                       WrittenAttributes attributes, const std::string& name) {
  std::string output = unique(name);
  preamble_.push_back({type, output, inputs, {output}, std::move(attributes)});
  return output;
}

std::string GraphExporter::batch() {
  if (batch_.empty()) {
    const auto axis = static_cast<int64_t>(batch_axis_);
    batch_ = in_preamble("Shape", {batch_input_}, {{"start", axis}, {"end", axis + 1}}, "batch");
  }
  return batch_;
}

std::string GraphExporter::dimensions(const ExportDimensions& dims) {
  std::string key;
  std::vector<std::vector<int64_t>> runs;  // of fixed ones; one of the batch is a run of its own
  for (const ExportDimension& dim : dims)
    key += std::to_string(dim.per_batch) + "b+" + std::to_string(dim.size) + ",";
  const auto known = dimensions_.find(key);
  if (known != dimensions_.end()) return known->second;
  const auto list = [&](const std::vector<int64_t>& values) {
    return constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values));
  };
  ExportNames parts;
  std::vector<int64_t> fixed;
  for (const ExportDimension& dim : dims) {
    if (dim.fixed()) {
      fixed.push_back(dim.size);
      continue;
    }
    if (!fixed.empty()) parts.push_back(list(std::exchange(fixed, {})));
    std::string part = batch();
    if (dim.per_batch != 1)
      part = in_preamble("Mul", {part, list({dim.per_batch})}, {}, "batch/multiple");
    if (dim.size != 0) part = in_preamble("Add", {part, list({dim.size})}, {}, "batch/sum");
    parts.push_back(part);
  }
  if (!fixed.empty() || parts.empty()) parts.push_back(list(fixed));
  std::string name = parts[0];
  if (parts.size() > 1)
    name = in_preamble("Concat", parts, {{"axis", int64_t{0}}}, "batch/dimensions");
  dimensions_[key] = name;
  return name;
}

WrittenModel GraphExporter::finish(const ExportNames& outputs, std::vector<WrittenValue> types) {
  WrittenGraph& graph = model_.graph;
  graph.nodes = std::move(preamble_);
  auto& nodes = open_.back().nodes;
  graph.nodes.insert(graph.nodes.end(), std::make_move_iterator(nodes.begin()),
                     std::make_move_iterator(nodes.end()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    types[i].name = outputs[i];
    graph.outputs.push_back(std::move(types[i]));
  }
  return std::move(model_);
}

}  // namespace keel::onnx
