#include "keel/ops/exchange/onnx/read_model.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/printable.h"
#include "keel/core/base/read_budget.h"
#include "keel/ops/exchange/onnx/read_messages.h"

namespace keel::onnx {
namespace {

// The most that a protocol-buffer message may have.
constexpr uint64_t kMostBytes = std::numeric_limits<int32_t>::max();

Dimension read_dimension(WireMessage message) {
  Dimension dimension;
  while (message.next()) {
    if (message.tag() == DimensionField::kDimValue) dimension.size = message.integer("dim_value");
    if (message.tag() == DimensionField::kDimParam) dimension.name = message.text("dim_param");
  }
  return dimension;
}

void read_shape(WireMessage message, ValueInfo& info) {
  info.shape.emplace();
  while (message.next()) {
    if (message.tag() != ShapeField::kDim) continue;
    message.take(sizeof(Dimension), "dim");
    info.shape->push_back(read_dimension(message.message("dim", info.shape->size())));
  }
}

void read_type(WireMessage message, ValueInfo& info) {
  while (message.next()) {
    switch (message.tag()) {
      case TypeField::kTensorType: {
        info.kind = ValueInfo::Kind::kTensor;
        WireMessage tensor = message.message("tensor_type");
        while (tensor.next()) {
          if (tensor.tag() == TensorTypeField::kElemType)
            info.type = static_cast<DataType>(tensor.integer("elem_type"));
          if (tensor.tag() == TensorTypeField::kShape) read_shape(tensor.message("shape"), info);
        }
        break;
      }
      case TypeField::kSequenceType:
        info.kind = ValueInfo::Kind::kSequence;
        break;
      case TypeField::kMapType:
        info.kind = ValueInfo::Kind::kMap;
        break;
      case TypeField::kOptionalType:
        info.kind = ValueInfo::Kind::kOptional;
        break;
      case TypeField::kSparseTensorType:
        info.kind = ValueInfo::Kind::kSparseTensor;
        break;
      default:
        break;
    }
  }
}

ValueInfo read_value_info(WireMessage message) {
  ValueInfo info;
  while (message.next()) {
    if (message.tag() == ValueInfoField::kName) info.name = message.text("name");
    if (message.tag() == ValueInfoField::kType) read_type(message.message("type"), info);
  }
  return info;
}

std::string read_sparse_name(WireMessage message) {
  std::string name;
  while (message.next()) {
    if (message.tag() != SparseTensorField::kValues) continue;
    WireMessage values = message.message("values");
    while (values.next())
      if (values.tag() == TensorField::kName) name = values.text("name");
  }
  return name;
}

GraphProto read_graph(WireMessage message);

// Which of two values of one name is meant, nothing says.
void require_distinct(const WireMessage& message, std::vector<std::string> names,
                      const char* what) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    message.fail(std::string("two of its ") + what + " are '" + printable(*twice) + "'");
}

template <class T>
std::shared_ptr<const T> shared(T value) {
  return std::make_shared<const T>(std::move(value));
}

// A string attribute may hold any bytes.
std::string read_string(WireMessage& message, const char* name) {
  const std::string_view view = message.bytes(name);
  message.take(view.size(), name);
  return std::string(view);
}

AttributeProto read_attribute(WireMessage message) {
  AttributeProto attribute;
  while (message.next()) {
    switch (message.tag()) {
      case AttributeField::kName:
        attribute.name = message.text("name");
        break;
      case AttributeField::kType:
        attribute.type = static_cast<AttributeType>(message.integer("type"));
        break;
      case AttributeField::kFloat:
        attribute.f = message.real("f");
        break;
      case AttributeField::kInt:
        attribute.i = message.integer("i");
        break;
      case AttributeField::kString:
        attribute.s = read_string(message, "s");
        break;
      case AttributeField::kTensor:
        message.take(sizeof(TensorProto), "t");
        attribute.tensor = shared(read_tensor(message.message("t")));
        break;
      case AttributeField::kGraph:
        message.take(sizeof(GraphProto), "g");
        attribute.graph = shared(read_graph(message.message("g")));
        break;
      case AttributeField::kFloats:
        message.append("floats", attribute.floats);
        break;
      case AttributeField::kInts:
        message.append("ints", attribute.ints);
        break;
      case AttributeField::kStrings:
        message.take(sizeof(std::string), "strings");
        attribute.strings.push_back(read_string(message, "strings"));
        break;
      default:
        break;
    }
  }
  return attribute;
}

NodeProto read_node(WireMessage message) {
  NodeProto node;
  while (message.next()) {
    switch (message.tag()) {
      case NodeField::kInput:
        message.take(sizeof(std::string), "input");
        node.inputs.push_back(message.text("input"));
        break;
      case NodeField::kOutput:
        message.take(sizeof(std::string), "output");
        node.outputs.push_back(message.text("output"));
        break;
      case NodeField::kName:
        node.name = message.text("name");
        break;
      case NodeField::kOpType:
        node.op = message.text("op_type");
        break;
      case NodeField::kDomain:
        node.domain = message.text("domain");
        break;
      case NodeField::kAttribute:
        message.take(sizeof(AttributeProto), "attribute");
        node.attributes.push_back(
            read_attribute(message.message("attribute", node.attributes.size())));
        break;
      default:
        break;
    }
  }
  std::vector<std::string> names;
  for (const AttributeProto& attribute : node.attributes) names.push_back(attribute.name);
  require_distinct(message, std::move(names), "attributes");
  if (node.domain == "ai.onnx") node.domain.clear();
  if (node.op.empty()) message.fail("a node without op_type");
  return node;
}

GraphProto read_graph(WireMessage message) {
  GraphProto graph;
  while (message.next()) {
    switch (message.tag()) {
      case GraphField::kNode:
        message.take(sizeof(NodeProto), "node");
        graph.nodes.push_back(read_node(message.message("node", graph.nodes.size())));
        break;
      case GraphField::kName:
        graph.name = message.text("name");
        break;
      case GraphField::kInitializer:
        message.take(sizeof(TensorProto), "initializer");
        graph.initializers.push_back(
            read_tensor(message.message("initializer", graph.initializers.size())));
        break;
      case GraphField::kSparseInitializer:
        message.take(sizeof(std::string), "sparse_initializer");
        graph.sparse_initializers.push_back(read_sparse_name(
            message.message("sparse_initializer", graph.sparse_initializers.size())));
        break;
      case GraphField::kValueInfo:
        message.take(sizeof(ValueInfo), "value_info");
        graph.results.push_back(
            read_value_info(message.message("value_info", graph.results.size())));
        break;
      case GraphField::kInput:
        message.take(sizeof(ValueInfo), "input");
        graph.inputs.push_back(read_value_info(message.message("input", graph.inputs.size())));
        break;
      case GraphField::kOutput:
        message.take(sizeof(ValueInfo), "output");
        graph.outputs.push_back(read_value_info(message.message("output", graph.outputs.size())));
        break;
      default:
        break;
    }
  }
  std::vector<std::string> names = graph.sparse_initializers;
  for (const TensorProto& tensor : graph.initializers) names.push_back(tensor.name);
  require_distinct(message, std::move(names), "initializers");
  return graph;
}

void read_opset(WireMessage message, std::map<std::string, int64_t>& opsets) {
  std::string domain;
  int64_t version = 0;
  while (message.next()) {
    if (message.tag() == OperatorSetField::kDomain) domain = message.text("domain");
    if (message.tag() == OperatorSetField::kVersion) version = message.integer("version");
  }
  if (domain == "ai.onnx") domain.clear();
  if (domain.empty() && version < 1)
    message.fail("op set " + std::to_string(version) + ", where the first one is 1");
  const auto [entry, is_new] = opsets.emplace(domain, version);
  if (!is_new && entry->second != version)
    message.fail("two op sets of the domain '" + printable(domain) + "': versions " +
                 std::to_string(entry->second) + " and " + std::to_string(version));
}

}  // namespace

ModelProto parse_model(std::string bytes, const std::string& source_name) {
  ModelProto model;
  model.source = source_name;
  model.bytes = std::make_shared<const std::string>(std::move(bytes));
  WireSource source{source_name, static_cast<uint64_t>(read_limit(model.bytes->size(), 0))};
  WireMessage message(*model.bytes, source);
  bool has_graph = false;
  while (message.next()) {
    switch (message.tag()) {
      case ModelField::kIrVersion:
        model.ir_version = message.integer("ir_version");
        break;
      case ModelField::kProducerName:
        model.producer = message.text("producer_name");
        break;
      case ModelField::kOpsetImport:
        message.take(sizeof(std::string) + sizeof(int64_t), "opset_import");
        read_opset(message.message("opset_import"), model.opsets);
        break;
      case ModelField::kGraph:
        if (has_graph) message.fail("a second graph");
        has_graph = true;
        model.graph = read_graph(message.message("graph"));
        break;
      case ModelField::kFunctions:
        model.has_functions = true;
        break;
      case ModelField::kTrainingInfo:
        model.has_training_info = true;
        break;
      default:
        break;
    }
  }
  if (!has_graph) message.fail("there is no graph in it");
  // Files of later IR versions name their op sets: one that does not may have lost its end.
  if (model.opsets.empty() && model.ir_version < 3) model.opsets[""] = 1;
  return model;
}

ModelProto read_model(const std::string& path) {
  return parse_model(read_file(path, kMostBytes), path);
}

Tensor read_tensor_file(const std::string& path, std::optional<DType> wanted) {
  const std::string bytes = read_file(path, kMostBytes);
  WireSource source{path, static_cast<uint64_t>(read_limit(bytes.size(), 0))};
  TensorProto proto = read_tensor(WireMessage(bytes, source));
  if (proto.type == DataType::kUint16 && wanted == bf16) proto.type = DataType::kBfloat16;
  return to_tensor(proto, path);
}

std::vector<std::string> external_files(const ModelProto& model) {
  std::set<std::string> files;
  const size_t slash = model.source.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : model.source.substr(0, slash + 1);
  const auto add = [&](const TensorProto& tensor) {
    const auto entry = tensor.external_data.find("location");
    if (tensor.external && entry != tensor.external_data.end())
      files.insert(folder + entry->second);
  };
  std::vector<const GraphProto*> open{&model.graph};
  while (!open.empty()) {
    const GraphProto& graph = *open.back();
    open.pop_back();
    for (const TensorProto& tensor : graph.initializers) add(tensor);
    for (const NodeProto& node : graph.nodes) {
      for (const AttributeProto& attribute : node.attributes) {
        if (attribute.tensor != nullptr) add(*attribute.tensor);
        if (attribute.graph != nullptr) open.push_back(attribute.graph.get());
      }
    }
  }
  return {files.begin(), files.end()};
}

}  // namespace keel::onnx
