#include "keel/ops/exchange/graphdef/file/read_graph_def.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/read_budget.h"
#include "keel/ops/exchange/graphdef/file/function_values.h"
#include "keel/ops/exchange/graphdef/file/schema.h"
#include "keel/ops/exchange/graphdef/file/text_form.h"
#include "keel/ops/exchange/onnx/read_wire.h"

namespace keel::graphdef {
namespace {

using onnx::WireMessage;
using onnx::WireSource;
using Kind = AttrValue::Kind;

// The most that a protocol-buffer message may have.
constexpr uint64_t kMostBytes = std::numeric_limits<int32_t>::max();

std::string read_bytes(WireMessage& message, const char* name) {
  const std::string_view view = message.bytes(name);
  message.take(view.size(), name);
  return std::string(view);
}

ShapeProto read_shape(WireMessage message) {
  ShapeProto shape = std::vector<int64_t>{};
  bool unknown_rank = false;
  while (message.next()) {
    if (message.tag() == ShapeField::kUnknownRank)
      unknown_rank = message.integer("unknown_rank") != 0;
    if (message.tag() != ShapeField::kDim) continue;
    message.take(sizeof(int64_t), "dim");
    WireMessage dim = message.message("dim", shape->size());
    int64_t size = 0;
    while (dim.next())
      if (dim.tag() == DimField::kSize) size = dim.integer("size");
    if (size < -1) dim.fail("a size of " + std::to_string(size));
    shape->push_back(size);
  }
  return unknown_rank ? std::nullopt : shape;
}

TensorProto read_tensor(WireMessage message) {
  TensorProto tensor;
  while (message.next()) {
    switch (message.tag()) {
      case TensorField::kDtype:
        tensor.type = static_cast<DataType>(message.integer("dtype"));
        break;
      case TensorField::kShape:
        tensor.shape = read_shape(message.message("tensor_shape"));
        break;
      case TensorField::kContent: {
        const std::string_view content = message.bytes("tensor_content");
        if (!content.empty()) tensor.content = content;
        break;
      }
      case TensorField::kFloatVal:
        message.append("float_val", tensor.floats);
        break;
      case TensorField::kDoubleVal:
        message.append("double_val", tensor.doubles);
        break;
      case TensorField::kStringVal:
        message.take(sizeof(std::string), "string_val");
        tensor.strings.push_back(read_bytes(message, "string_val"));
        break;
      case TensorField::kIntVal:
      case TensorField::kInt64Val:
      case TensorField::kBoolVal:
      case TensorField::kHalfVal:
      case TensorField::kUint32Val:
      case TensorField::kUint64Val:
        message.append("the elements", tensor.integers);
        break;
      default:
        break;
    }
  }
  return tensor;
}

std::string read_function_name(WireMessage message) {
  std::string name;
  while (message.next())
    if (message.tag() == NameAttrListField::kName) name = message.text("name");
  return name;
}

// Adds what one field of an attribute, or of its list, says. `list` says which of both it is in.
Kind read_member(WireMessage& message, AttrValue& value, bool list) {
  switch (message.tag()) {
    case AttrField::kS:
      message.take(sizeof(std::string), "s");
      value.strings.push_back(read_bytes(message, "s"));
      return Kind::kString;
    case AttrField::kI:
      message.append("i", value.ints);
      return Kind::kInt;
    case AttrField::kF:
      message.append("f", value.floats);
      return Kind::kFloat;
    case AttrField::kB:
      message.append("b", value.ints);
      return Kind::kBool;
    case AttrField::kType:
      message.append("type", value.ints);
      return Kind::kType;
    case AttrField::kShape:
      message.take(sizeof(ShapeProto), "shape");
      value.shapes.push_back(read_shape(message.message("shape", value.shapes.size())));
      return Kind::kShape;
    case AttrField::kTensor:
      message.take(sizeof(TensorProto), "tensor");
      value.tensors.push_back(std::make_shared<const TensorProto>(
          read_tensor(message.message("tensor", value.tensors.size()))));
      return Kind::kTensor;
    case AttrField::kPlaceholder:
      if (list) break;
      static_cast<void>(message.text("placeholder"));
      return Kind::kPlaceholder;
    default:
      break;
  }
  if (message.tag() == (list ? ListField::kFunc : AttrField::kFunc)) {
    message.take(sizeof(std::string), "func");
    value.strings.push_back(read_function_name(message.message("func")));
    return Kind::kFunction;
  }
  return Kind::kNone;
}

AttrValue read_value(WireMessage message) {
  AttrValue value;
  while (message.next()) {
    if (message.tag() == AttrField::kList) {
      WireMessage list = message.message("list");
      while (list.next()) value.types = read_member(list, value, true) == Kind::kType;
      value.kind = Kind::kList;
      continue;
    }
    const Kind kind = read_member(message, value, false);
    if (kind != Kind::kNone) value.kind = kind;
  }
  // A field that holds its default is left out of a message.
  if (value.kind == Kind::kInt || value.kind == Kind::kBool || value.kind == Kind::kType)
    if (value.ints.empty()) message.fail("an attribute without its value");
  return value;
}

void read_attribute(WireMessage message, NodeDef& node) {
  std::string name;
  AttrValue value;
  while (message.next()) {
    if (message.tag() == EntryField::kKey) name = message.text("key");
    if (message.tag() == EntryField::kValue) value = read_value(message.message("value"));
  }
  node.attributes[name] = std::move(value);
}

NodeDef read_node(WireMessage message) {
  NodeDef node;
  while (message.next()) {
    switch (message.tag()) {
      case NodeField::kName:
        node.name = message.text("name");
        break;
      case NodeField::kOp:
        node.op = message.text("op");
        break;
      case NodeField::kInput:
        message.take(sizeof(std::string), "input");
        node.inputs.push_back(message.text("input"));
        break;
      case NodeField::kDevice:
        node.device = message.text("device");
        break;
      case NodeField::kAttr:
        message.take(sizeof(AttrValue), "attr");
        read_attribute(message.message("attr", node.attributes.size()), node);
        break;
      default:
        break;
    }
  }
  if (node.name.empty()) message.fail("a node without a name");
  if (node.op.empty()) message.fail("a node without an op");
  return node;
}

std::string read_argument(WireMessage message) {
  std::string name;
  while (message.next())
    if (message.tag() == ArgField::kName) name = message.text("name");
  return name;
}

Body read_function(WireMessage message) {
  Body body;
  std::vector<std::string> results;
  std::map<std::string, std::string> returned;
  while (message.next()) {
    switch (message.tag()) {
      case FunctionField::kSignature: {
        WireMessage signature = message.message("signature");
        while (signature.next()) {
          signature.take(sizeof(std::string), "signature");
          if (signature.tag() == SignatureField::kName) body.name = signature.text("name");
          if (signature.tag() == SignatureField::kInputArg)
            body.arguments.push_back(read_argument(signature.message("input_arg")));
          if (signature.tag() == SignatureField::kOutputArg)
            results.push_back(read_argument(signature.message("output_arg")));
        }
        break;
      }
      case FunctionField::kNodeDef:
        message.take(sizeof(NodeDef), "node_def");
        body.nodes.push_back(read_node(message.message("node_def", body.nodes.size())));
        break;
      case FunctionField::kRet: {
        message.take(2 * sizeof(std::string), "ret");
        WireMessage entry = message.message("ret");
        std::string name, value;
        while (entry.next()) {
          if (entry.tag() == EntryField::kKey) name = entry.text("key");
          if (entry.tag() == EntryField::kValue) value = entry.text("value");
        }
        returned[name] = value;
        break;
      }
      default:
        break;
    }
  }
  for (const std::string& result : results) {
    const auto value = returned.find(result);
    if (value == returned.end())
      message.fail("function " + body.name + " says not what its result " + result + " is");
    body.results.push_back(value->second);
  }
  number_function_values(body);
  return body;
}

void read_graph(WireMessage& message, GraphDef& graph) {
  while (message.next()) {
    if (message.tag() == GraphField::kNode) {
      message.take(sizeof(NodeDef), "node");
      graph.nodes.push_back(read_node(message.message("node", graph.nodes.size())));
    } else if (message.tag() == GraphField::kLibrary) {
      WireMessage library = message.message("library");
      while (library.next()) {
        if (library.tag() != LibraryField::kFunction) continue;
        library.take(sizeof(Body), "function");
        Body body = read_function(library.message("function", graph.bodies.size()));
        std::string name = body.name;
        if (!graph.bodies.emplace(name, std::move(body)).second)
          library.fail("two functions are '" + name + "'");
      }
    }
  }
}

VariableDef read_variable(WireMessage message) {
  VariableDef variable;
  while (message.next()) {
    switch (message.tag()) {
      case VariableField::kVariableName:
        variable.name = message.text("variable_name");
        break;
      case VariableField::kInitialValueName:
        variable.initial_value = message.text("initial_value_name");
        break;
      default:
        break;
    }
  }
  return variable;
}

// A collection of variables lists them as bytes, each one a message of its own.
void read_collection(WireMessage message, GraphDef& graph, std::vector<std::string>& trainable) {
  std::string name;
  std::vector<VariableDef> variables;
  while (message.next()) {
    if (message.tag() == EntryField::kKey) name = message.text("key");
    if (message.tag() != EntryField::kValue) continue;
    if (name != "variables" && name != "trainable_variables") continue;
    WireMessage collection = message.message("value");
    while (collection.next()) {
      if (collection.tag() != CollectionField::kBytesList) continue;
      WireMessage list = collection.message("bytes_list");
      while (list.next()) {
        list.take(sizeof(VariableDef), "value");
        if (list.tag() == BytesListField::kValue)
          variables.push_back(read_variable(list.message("value", variables.size())));
      }
    }
  }
  for (VariableDef& variable : variables) {
    if (name == "trainable_variables") trainable.push_back(variable.name);
    if (name == "variables") graph.variables.push_back(std::move(variable));
  }
}

void read_meta_graph(WireMessage& message, GraphDef& graph) {
  std::vector<std::string> trainable;
  bool has_graph = false;
  while (message.next()) {
    if (message.tag() == MetaGraphField::kGraphDef) {
      has_graph = true;
      WireMessage inner = message.message("graph_def");
      read_graph(inner, graph);
    } else if (message.tag() == MetaGraphField::kCollection) {
      read_collection(message.message("collection_def"), graph, trainable);
    }
  }
  if (!has_graph) message.fail("there is no graph in it");
  std::sort(trainable.begin(), trainable.end());
  for (VariableDef& variable : graph.variables)
    variable.trainable = std::binary_search(trainable.begin(), trainable.end(), variable.name);
}

// A SavedModel begins with the number of its schema, in a field that holds nodes in a GraphDef, and
// has its graphs behind it.
void refuse_saved_model(const std::string& bytes, const std::string& source) {
  constexpr char kSchemaVersion = 0x08, kMetaGraphs = 0x12;
  if (bytes.size() < 3 || bytes[0] != kSchemaVersion || bytes[2] != kMetaGraphs) return;
  throw Error({.op = source,
               .message = "is a SavedModel, whose weights lie in other files (variables/)",
               .fix = "freeze it first (freeze_graph.py of TensorFlow 1 with "
                      "--input_saved_model_dir), then import the frozen graph"});
}

}  // namespace

GraphDef parse_graph_def(std::string bytes, const std::string& source_name, FileKind kind) {
  const bool meta = kind == FileKind::kMetaGraph;
  if (is_text_form(bytes))
    bytes = wire_form(bytes, source_name, meta ? MessageKind::kMetaGraph : MessageKind::kGraph);
  refuse_saved_model(bytes, source_name);
  GraphDef graph;
  graph.source = source_name;
  graph.bytes = std::make_shared<const std::string>(std::move(bytes));
  WireSource source{.name = source_name,
                    .budget = static_cast<uint64_t>(read_limit(graph.bytes->size(), 0)),
                    .kind = "TensorFlow graph"};
  WireMessage message(*graph.bytes, source);
  if (meta)
    read_meta_graph(message, graph);
  else
    read_graph(message, graph);
  if (graph.nodes.empty()) message.fail("there is no node in it");
  return graph;
}

GraphDef read_graph_def(const std::string& path) {
  const FileKind kind = path.ends_with(".meta") ? FileKind::kMetaGraph : FileKind::kGraph;
  return parse_graph_def(read_file(path, kMostBytes), path, kind);
}

bool is_graph_def_path(const std::string& path) {
  return path.ends_with(".pb") || path.ends_with(".pbtxt") || path.ends_with(".meta");
}

}  // namespace keel::graphdef
