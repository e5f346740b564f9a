#include "keel/ops/exchange/onnx/write_model.h"

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>

#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include "keel/core/base/error.h"
#include "keel/core/base/file.h"

namespace keel::onnx {
namespace {

using Writer = protozero::pbf_writer;

// A tensor in the second file.
struct ExternalPlace {
  std::string location;  // relative to the model's folder
  uint64_t offset = 0;
};

constexpr uint64_t kLeastExternalBytes = 1024;
// Offsets in the second file are multiples of this, so that it can be mapped.
constexpr uint64_t kAlignment = 4096;
constexpr uint64_t kMostMessageBytes = (uint64_t{1} << 31) - 1;

template <class E>
int32_t number(E enumerator) {
  return static_cast<int32_t>(enumerator);
}

// Everything of a TensorProto but its raw_data, which follows it.
std::string tensor_header(const WrittenTensor& tensor) {
  std::string bytes;
  Writer out(bytes);
  for (const int64_t dim : tensor.value.shape()) out.add_int64(TensorField::kDims, dim);
  out.add_int32(TensorField::kDataType, number(onnx_type(tensor.value.dtype())));
  if (!tensor.name.empty()) out.add_string(TensorField::kName, tensor.name);
  return bytes;
}

void add_entry(Writer& parent, uint32_t field, const std::string& key, const std::string& value) {
  Writer entry(parent, field);
  entry.add_string(StringEntryField::kKey, key);
  entry.add_string(StringEntryField::kValue, value);
}

// A whole tensor inside the message; for the small ones of attributes and bodies.
void add_tensor(Writer& parent, uint32_t field, const WrittenTensor& tensor) {
  std::string bytes = tensor_header(tensor);
  Writer out(bytes);
  out.add_bytes(TensorField::kRawData, static_cast<const char*>(tensor.value.raw()),
                tensor.value.num_bytes());
  parent.add_message(field, bytes);
}

void add_value(Writer& parent, uint32_t field, const WrittenValue& value) {
  Writer info(parent, field);
  info.add_string(ValueInfoField::kName, value.name);
  Writer type(info, ValueInfoField::kType);
  Writer tensor(type, TypeField::kTensorType);
  tensor.add_int32(TensorTypeField::kElemType, number(onnx_type(value.dtype)));
  std::string dimensions;
  Writer shape(dimensions);
  for (const WrittenDimension& dim : value.shape) {
    Writer written(shape, ShapeField::kDim);
    if (dim.symbol.empty())
      written.add_int64(DimensionField::kDimValue, dim.size);
    else
      written.add_string(DimensionField::kDimParam, dim.symbol);
  }
  // A scalar's is empty and there; without one the rank would be unknown.
  tensor.add_message(TensorTypeField::kShape, dimensions);
}

void add_graph_without_initializers(Writer& out, const WrittenGraph& graph);

void add_body(Writer& parent, const WrittenGraph& body) {
  Writer out(parent, AttributeField::kGraph);
  add_graph_without_initializers(out, body);
  for (const WrittenTensor& tensor : body.initializers)
    add_tensor(out, GraphField::kInitializer, tensor);
}

void add_attribute(Writer& parent, const std::string& name, const WrittenAttributeValue& value) {
  Writer out(parent, NodeField::kAttribute);
  out.add_string(AttributeField::kName, name);
  const auto type = [&](AttributeType t) { out.add_int32(AttributeField::kType, number(t)); };
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    type(AttributeType::kInt);
    out.add_int64(AttributeField::kInt, *integer);
  } else if (const auto* real = std::get_if<float>(&value)) {
    type(AttributeType::kFloat);
    out.add_float(AttributeField::kFloat, *real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    type(AttributeType::kString);
    out.add_string(AttributeField::kString, *text);
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    type(AttributeType::kInts);
    for (const int64_t i : *integers) out.add_int64(AttributeField::kInts, i);
  } else if (const auto* reals = std::get_if<std::vector<float>>(&value)) {
    type(AttributeType::kFloats);
    for (const float f : *reals) out.add_float(AttributeField::kFloats, f);
  } else if (const auto* tensor = std::get_if<Tensor>(&value)) {
    type(AttributeType::kTensor);
    add_tensor(out, AttributeField::kTensor, {.name = "", .value = *tensor});
  } else {
    type(AttributeType::kGraph);
    add_body(out, *std::get<std::shared_ptr<const WrittenGraph>>(value));
  }
}

void add_node(Writer& parent, const WrittenNode& node) {
  Writer out(parent, GraphField::kNode);
  for (const std::string& input : node.inputs) out.add_string(NodeField::kInput, input);
  for (const std::string& output : node.outputs) out.add_string(NodeField::kOutput, output);
  out.add_string(NodeField::kName, node.name);
  out.add_string(NodeField::kOpType, node.op_type);
  for (const auto& [name, value] : node.attributes) add_attribute(out, name, value);
}

void add_graph_without_initializers(Writer& out, const WrittenGraph& graph) {
  for (const WrittenNode& node : graph.nodes) add_node(out, node);
  out.add_string(GraphField::kName, graph.name);
  for (const WrittenValue& input : graph.inputs) add_value(out, GraphField::kInput, input);
  for (const WrittenValue& output : graph.outputs) add_value(out, GraphField::kOutput, output);
}

// The length-delimited field that comes next, without its content.
std::string field_start(uint32_t field, uint64_t length) {
  std::string bytes;
  protozero::add_varint_to_buffer(
      &bytes,
      (uint64_t{field} << 3) | static_cast<uint64_t>(protozero::pbf_wire_type::length_delimited));
  protozero::add_varint_to_buffer(&bytes, length);
  return bytes;
}

// An initializer in pieces: its encoding up to the weights, which are written from where they are.
struct EncodedTensor {
  std::string before;
  const Tensor* raw = nullptr;  // none: it is in the second file

  uint64_t bytes() const { return before.size() + (raw == nullptr ? 0 : raw->num_bytes()); }
};

EncodedTensor encode(const WrittenTensor& tensor, const std::optional<ExternalPlace>& place) {
  EncodedTensor encoded;
  std::string header = tensor_header(tensor);
  if (place) {
    Writer out(header);
    add_entry(out, TensorField::kExternalData, "location", place->location);
    add_entry(out, TensorField::kExternalData, "offset", std::to_string(place->offset));
    add_entry(out, TensorField::kExternalData, "length", std::to_string(tensor.value.num_bytes()));
    out.add_int32(TensorField::kDataLocation, number(DataLocation::kExternal));
  } else {
    header += field_start(TensorField::kRawData, tensor.value.num_bytes());
    encoded.raw = &tensor.value;
  }
  const uint64_t length = header.size() + (place ? 0 : tensor.value.num_bytes());
  encoded.before = field_start(GraphField::kInitializer, length) + header;
  return encoded;
}

std::string encoded_head(const WrittenModel& model) {
  std::string bytes;
  Writer out(bytes);
  out.add_int64(ModelField::kIrVersion, kWrittenIrVersion);
  out.add_string(ModelField::kProducerName, model.producer_name);
  out.add_string(ModelField::kProducerVersion, model.producer_version);
  {
    Writer opset(out, ModelField::kOpsetImport);
    opset.add_string(OperatorSetField::kDomain, "");
    opset.add_int64(OperatorSetField::kVersion, kWrittenOpset);
  }
  for (const auto& [key, value] : model.metadata)
    add_entry(out, ModelField::kMetadataProps, key, value);
  return bytes;
}

class ModelFile {
 public:
  ModelFile(const WrittenModel& model, const std::string& path, uint64_t most_inline_bytes)
      : model_(model), path_(path) {
    uint64_t total = 0;
    for (const WrittenTensor& tensor : model.graph.initializers) total += tensor.value.num_bytes();
    external_ = total > most_inline_bytes;
  }

  void write() {
    if (external_) write_data();
    const std::string head = encoded_head(model_);
    std::string body;
    {
      Writer out(body);
      add_graph_without_initializers(out, model_.graph);
    }
    std::vector<EncodedTensor> tensors;
    uint64_t length = body.size();
    for (const WrittenTensor& tensor : model_.graph.initializers) {
      tensors.push_back(encode(tensor, place_of(tensor)));
      length += tensors.back().bytes();
    }
    if (head.size() + length + 16 > kMostMessageBytes) {
      throw Error({.op = "onnx::save",
                   .argument = path_,
                   .expected = "at most 2 GiB in the model's own file, ONNX's limit",
                   .got = std::to_string(length) + " bytes beside the weights in the second file"});
    }
    AtomicFile file(path_);
    file.write(head);
    file.write(field_start(ModelField::kGraph, length));
    file.write(body);
    for (const EncodedTensor& tensor : tensors) {
      file.write(tensor.before);
      if (tensor.raw != nullptr) file.write(tensor.raw->raw(), tensor.raw->num_bytes());
    }
    // Both files are on the disk before the first takes its place: an older model would read other
    // weights.
    file.commit([&] {
      if (data_) data_->commit();
    });
  }

 private:
  void write_data() {
    const std::string data_path = path_ + ".data";
    const std::string location = std::filesystem::path(data_path).filename().string();
    data_.emplace(data_path);
    uint64_t offset = 0;
    for (const WrittenTensor& tensor : model_.graph.initializers) {
      const uint64_t bytes = tensor.value.num_bytes();
      if (bytes < kLeastExternalBytes) continue;
      const uint64_t start = (offset + kAlignment - 1) / kAlignment * kAlignment;
      data_->write(std::string(start - offset, '\0'));
      data_->write(tensor.value.raw(), bytes);
      places_[&tensor] = {location, start};
      offset = start + bytes;
    }
  }

  std::optional<ExternalPlace> place_of(const WrittenTensor& tensor) const {
    const auto it = places_.find(&tensor);
    return it == places_.end() ? std::nullopt : std::optional(it->second);
  }

  const WrittenModel& model_;
  const std::string& path_;
  bool external_ = false;
  std::optional<AtomicFile> data_;
  std::map<const WrittenTensor*, ExternalPlace> places_;
};

}  // namespace

DataType onnx_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return DataType::kDouble;
    case DType::kF32:
      return DataType::kFloat;
    case DType::kF16:
      return DataType::kFloat16;
    case DType::kBF16:
      return DataType::kBfloat16;
    case DType::kI64:
      return DataType::kInt64;
    case DType::kI32:
      return DataType::kInt32;
    case DType::kU8:
      return DataType::kUint8;
    case DType::kBool:
      return DataType::kBool;
    case DType::kToken:
      break;
  }
  throw Error({.op = "onnx::save", .expected = "a tensor", .got = "a token of effects"});
}

void write_model(const WrittenModel& model, const std::string& path, uint64_t most_inline_bytes) {
  ModelFile(model, path, most_inline_bytes).write();
}

}  // namespace keel::onnx
