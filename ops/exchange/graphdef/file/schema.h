// The part of TensorFlow's protocol-buffer schema that is read: the number of each message's
// fields. Constants only. Source: graph.proto, node_def.proto, attr_value.proto, tensor.proto,
// tensor_shape.proto, function.proto, op_def.proto, meta_graph.proto, variable.proto of TensorFlow
// 1.15, github.com/tensorflow/tensorflow, tensorflow/core.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_SCHEMA_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_SCHEMA_H

#include <cstdint>

namespace keel::graphdef {

struct GraphField {
  static constexpr uint32_t kNode = 1, kLibrary = 2;
};
struct NodeField {
  static constexpr uint32_t kName = 1, kOp = 2, kInput = 3, kDevice = 4, kAttr = 5;
};
// The entry of any map.
struct EntryField {
  static constexpr uint32_t kKey = 1, kValue = 2;
};
struct AttrField {
  static constexpr uint32_t kList = 1, kS = 2, kI = 3, kF = 4, kB = 5, kType = 6, kShape = 7,
                            kTensor = 8, kPlaceholder = 9, kFunc = 10;
};
// A list has the numbers of the attribute itself, but for functions.
struct ListField {
  static constexpr uint32_t kS = 2, kI = 3, kF = 4, kB = 5, kType = 6, kShape = 7, kTensor = 8,
                            kFunc = 9;
};
struct NameAttrListField {
  static constexpr uint32_t kName = 1;
};
struct ShapeField {
  static constexpr uint32_t kDim = 2, kUnknownRank = 3;
};
struct DimField {
  static constexpr uint32_t kSize = 1;
};
struct TensorField {
  static constexpr uint32_t kDtype = 1, kShape = 2, kContent = 4, kFloatVal = 5, kDoubleVal = 6,
                            kIntVal = 7, kStringVal = 8, kInt64Val = 10, kBoolVal = 11,
                            kHalfVal = 13, kUint32Val = 16, kUint64Val = 17;
};
struct LibraryField {
  static constexpr uint32_t kFunction = 1;
};
struct FunctionField {
  static constexpr uint32_t kSignature = 1, kNodeDef = 3, kRet = 4;
};
struct SignatureField {
  static constexpr uint32_t kName = 1, kInputArg = 2, kOutputArg = 3;
};
struct ArgField {
  static constexpr uint32_t kName = 1;
};
struct MetaGraphField {
  static constexpr uint32_t kMetaInfo = 1, kGraphDef = 2, kCollection = 4;
};
struct CollectionField {
  static constexpr uint32_t kNodeList = 1, kBytesList = 2;
};
struct BytesListField {
  static constexpr uint32_t kValue = 1;
};
struct VariableField {
  static constexpr uint32_t kVariableName = 1, kInitializerName = 2, kInitialValueName = 6,
                            kTrainable = 7;
};

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_SCHEMA_H
