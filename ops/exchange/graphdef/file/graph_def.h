// A TensorFlow graph as plain values: what a GraphDef says, nothing interpreted.
//
// A value is named as in the file: "node" or "node:0" is a node's first output, "node:2" its third,
// and an input "^node" says only that this node comes first. Bodies (the functions of a graph's
// library, and what functionalise makes of version 1 control flow) use the same names; an argument
// of a body is the value of its name. The structs own what they hold, except the raw content of
// tensors, which lies in the bytes of the file that `bytes` keeps. Plain values; any thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_GRAPH_DEF_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_GRAPH_DEF_H

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace keel::graphdef {

// The numbers of types.proto. A reference to a variable of a type has that type's number plus 100.
enum class DataType : int32_t {
  kInvalid = 0,
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kResource = 20,
  kVariant = 21,
  kUint32 = 22,
  kUint64 = 23,
};

// A shape: nothing where not even the rank is known, -1 for an unknown dimension.
using ShapeProto = std::optional<std::vector<int64_t>>;

struct TensorProto {
  DataType type = DataType::kInvalid;
  ShapeProto shape = std::vector<int64_t>{};
  // The elements as bytes; else the lists, whose last element stands for all that follow it.
  std::optional<std::string_view> content;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int64_t> integers;  // of int, int64, bool and half values
  std::vector<std::string> strings;
};

// An attribute: the field that `kind` names, or the list of those where it is a list.
struct AttrValue {
  enum class Kind {
    kNone,
    kString,
    kInt,
    kFloat,
    kBool,
    kType,
    kShape,
    kTensor,
    kFunction,
    kList,
    kPlaceholder  // in a function: what its call says
  };
  Kind kind = Kind::kNone;
  bool types = false;                // a list of types
  std::vector<std::string> strings;  // of strings and names of functions
  std::vector<int64_t> ints;         // of integers, bools and types
  std::vector<float> floats;
  std::vector<ShapeProto> shapes;
  std::vector<std::shared_ptr<const TensorProto>> tensors;
};

struct NodeDef {
  std::string name, op, device;
  std::vector<std::string> inputs;  // values, then "^node"s
  std::map<std::string, AttrValue> attributes;
};

// Returns null where the node has no such attribute of that kind.
inline const AttrValue* find_attribute(const NodeDef& node, const char* name,
                                       AttrValue::Kind kind) {
  const auto entry = node.attributes.find(name);
  return entry == node.attributes.end() || entry->second.kind != kind ? nullptr : &entry->second;
}

// A function of the graph's library.
struct Body {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<NodeDef> nodes;
  std::vector<std::string> results;  // values
};

// A MetaGraphDef says this of a variable beside its node. Values are named as in nodes.
struct VariableDef {
  std::string name;           // of the variable's value
  std::string initial_value;  // empty where the file does not say it
  bool trainable = true;
};

struct GraphDef {
  std::string source;  // the file's path, or what stands for it in errors
  std::vector<NodeDef> nodes;
  std::map<std::string, Body> bodies;
  std::vector<VariableDef> variables;  // of a MetaGraphDef; else none
  std::shared_ptr<const std::string> bytes;
};

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_GRAPH_DEF_H
