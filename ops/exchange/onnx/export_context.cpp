// The functions that rules of the exporter call.
#include <algorithm>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/ops/exchange/onnx/export_graph.h"
#include "keel/ops/exchange/onnx/export_rules.h"

namespace keel::onnx {

ExportContext::ExportContext(GraphExporter& exporter, std::vector<const Node*> twins,
                             const ExportNames& inputs, ExportDtypes dtypes)
    : exporter_(exporter), twins_(std::move(twins)), inputs_(inputs), dtypes_(dtypes) {}

DType ExportContext::computed(DType dtype) const {
  if (dtypes_ == ExportDtypes::kAsStored) return dtype;
  if (dtype == f16 || dtype == bf16) return f32;
  return dtype == u8 ? i32 : dtype;
}

std::string ExportContext::in(size_t i) {
  return cast(inputs_.at(i), node().input(i).dtype(), dtype(i));
}

std::string ExportContext::cast(const std::string& value, DType from, DType to) {
  if (from == to) return value;
  return op("Cast", {value}, {{"to", static_cast<int64_t>(onnx_type(to))}});
}

std::string ExportContext::op(const std::string& type, const ExportNames& inputs,
                              WrittenAttributes attributes) {
  return ops(type, inputs, 1, std::move(attributes))[0];
}

ExportNames ExportContext::ops(const std::string& type, const ExportNames& inputs, size_t outputs,
                               WrittenAttributes attributes) {
  return exporter_.add_node(node(), type, inputs, outputs, std::move(attributes));
}

std::string ExportContext::number(DType dtype, double value) {
  return constant(Tensor::full(dtype, {}, value));
}
std::string ExportContext::integers(const std::vector<int64_t>& values) {
  return constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values));
}
std::string ExportContext::constant(const Tensor& value) { return exporter_.constant(value); }

ExportDimensions ExportContext::dims_of(const std::function<const Shape&(const Node&)>& shape,
                                        const std::string& what) const {
  std::vector<const Shape*> shapes;
  for (const Node* twin : twins_) shapes.push_back(&shape(*twin));
  return dimensions_of(shapes, what);
}

ExportDimensions ExportContext::dims(size_t i) const {
  return dims_of([i](const Node& n) -> const Shape& { return n.input(i).shape(); },
                 "input " + std::to_string(i));
}

ExportDimensions ExportContext::result_dims(size_t i) const {
  return dims_of([i](const Node& n) -> const Shape& { return n.type(i).shape; }, "the result");
}

ExportDimensions ExportContext::attribute_dims(const std::string& name) const {
  std::vector<std::vector<int64_t>> lists;
  for (const Node* twin : twins_) {
    for (const auto& [key, value] : twin->attributes().list()) {
      if (key != name) continue;
      if (const auto* one = std::get_if<int64_t>(&value))
        lists.push_back({*one});
      else
        lists.push_back(std::get<std::vector<int64_t>>(value));
    }
  }
  ExportDimensions dims;
  for (size_t i = 0; i < lists.at(0).size(); ++i) {
    std::vector<int64_t> values;
    for (const auto& list : lists) values.push_back(list.at(i));
    const auto dim = dimension_of(values);
    if (!dim) refuse("its attribute " + name + " depends on the size of the batch");
    dims.push_back(*dim);
  }
  return dims;
}

void ExportContext::require_same_attributes() const {
  for (const Node* twin : twins_) {
    if (!(twin->attributes() == node().attributes()))
      refuse("its attributes depend on the size of the batch");
  }
}

const Tensor* ExportContext::constant_input(size_t i) const {
  const Tensor* value = nullptr;
  for (const Node* twin : twins_) {
    const Node& source = twin->input(i).node();
    if (!source.is(OpRole::kConstant)) return nullptr;
    const Tensor& own = source.as<ConstantAttributes>().value;
    if (value != nullptr && !attribute_equal(AttributeValue(*value), AttributeValue(own)))
      return nullptr;
    value = &own;
  }
  return value;
}

std::string ExportContext::dimensions(const ExportDimensions& dims) {
  return exporter_.dimensions(dims);
}

std::string ExportContext::reshaped(const std::string& value, const ExportDimensions& dims) {
  const bool has_zero = std::any_of(
      dims.begin(), dims.end(), [](const ExportDimension& d) { return d.fixed() && d.size == 0; });
  const auto open = [](const ExportDimension& d) { return !d.fixed(); };
  const auto number_open = std::count_if(dims.begin(), dims.end(), open);
  std::string shape;
  if (number_open == 1 && !has_zero) {
    std::vector<int64_t> list;
    for (const ExportDimension& d : dims) list.push_back(d.fixed() ? d.size : -1);
    shape = integers(list);
  } else {
    shape = dimensions(dims);
  }
  // A 0 would mean "as in the input" otherwise.
  if (has_zero) return op("Reshape", {value, shape}, {{"allowzero", int64_t{1}}});
  return op("Reshape", {value, shape});
}

std::string ExportContext::transposed(const std::string& value, const std::vector<int64_t>& perm) {
  if (std::is_sorted(perm.begin(), perm.end())) return value;
  return op("Transpose", {value}, {{"perm", perm}});
}

void ExportContext::open_body() { exporter_.open_body(); }

ExportNames ExportContext::write_body(size_t index, const ExportNames& inputs) {
  TwinGraphs bodies;
  for (const Node* twin : twins_) bodies.push_back(twin->bodies().at(index).get());
  return exporter_.write_nodes(bodies, inputs, {});
}

std::shared_ptr<const WrittenGraph> ExportContext::close_body(
    const std::string& name, std::vector<WrittenValue> inputs, const ExportNames& outputs,
    const std::vector<WrittenValue>& types) {
  return exporter_.close_body(node(), name, std::move(inputs), outputs, types);
}

WrittenValue ExportContext::described_result(size_t i) const {
  std::vector<Type> types;
  for (const Node* twin : twins_) types.push_back(twin->type(i));
  return described_value("", types);
}

WrittenValue ExportContext::described_output(size_t body, size_t i) const {
  std::vector<Type> types;
  for (const Node* twin : twins_) types.push_back(twin->bodies().at(body)->outputs().at(i).type());
  return described_value("", types);
}

std::string ExportContext::unique(const std::string& name) { return exporter_.unique(name); }

void ExportContext::refuse(const std::string& reason) const { throw Error(reason); }

}  // namespace keel::onnx
