// The part of ONNX's protocol-buffer schema that the reader and the writer share: the number of
// each message's fields and the values of its enumerations. Constants only.
// Source: onnx.proto of ONNX 1.12 (IR version 8), github.com/onnx/onnx.
#ifndef KEEL_OPS_EXCHANGE_ONNX_SCHEMA_H
#define KEEL_OPS_EXCHANGE_ONNX_SCHEMA_H

#include <cstdint>

namespace keel::onnx {

struct ModelField {
  static constexpr uint32_t kIrVersion = 1, kProducerName = 2, kProducerVersion = 3, kDomain = 4,
                            kModelVersion = 5, kDocString = 6, kGraph = 7, kOpsetImport = 8,
                            kMetadataProps = 14, kTrainingInfo = 20, kFunctions = 25;
};

struct OperatorSetField {
  static constexpr uint32_t kDomain = 1, kVersion = 2;
};

struct StringEntryField {
  static constexpr uint32_t kKey = 1, kValue = 2;
};

struct GraphField {
  static constexpr uint32_t kNode = 1, kName = 2, kInitializer = 5, kDocString = 10, kInput = 11,
                            kOutput = 12, kValueInfo = 13, kQuantizationAnnotation = 14,
                            kSparseInitializer = 15;
};

struct NodeField {
  static constexpr uint32_t kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5,
                            kDocString = 6, kDomain = 7;
};

struct AttributeField {
  static constexpr uint32_t kName = 1, kFloat = 2, kInt = 3, kString = 4, kTensor = 5, kGraph = 6,
                            kFloats = 7, kInts = 8, kStrings = 9, kTensors = 10, kGraphs = 11,
                            kDocString = 13, kTypeProto = 14, kTypeProtos = 15, kType = 20,
                            kRefAttrName = 21, kSparseTensor = 22, kSparseTensors = 23;
};

enum class AttributeType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};

struct TensorField {
  static constexpr uint32_t kDims = 1, kDataType = 2, kSegment = 3, kFloatData = 4, kInt32Data = 5,
                            kStringData = 6, kInt64Data = 7, kName = 8, kRawData = 9,
                            kDoubleData = 10, kUint64Data = 11, kDocString = 12, kExternalData = 13,
                            kDataLocation = 14;
};

enum class DataType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
};

enum class DataLocation : int32_t { kDefault = 0, kExternal = 1 };

struct SparseTensorField {
  static constexpr uint32_t kValues = 1, kIndices = 2, kDims = 3;
};

struct ValueInfoField {
  static constexpr uint32_t kName = 1, kType = 2, kDocString = 3;
};

struct TypeField {
  static constexpr uint32_t kTensorType = 1, kSequenceType = 4, kMapType = 5, kDenotation = 6,
                            kSparseTensorType = 8, kOptionalType = 9;
};

struct TensorTypeField {
  static constexpr uint32_t kElemType = 1, kShape = 2;
};

struct ShapeField {
  static constexpr uint32_t kDim = 1;
};

struct DimensionField {
  static constexpr uint32_t kDimValue = 1, kDimParam = 2, kDenotation = 3;
};

struct TrainingInfoField {
  static constexpr uint32_t kInitialization = 1, kAlgorithm = 2, kInitializationBinding = 3,
                            kUpdateBinding = 4;
};

struct FunctionField {
  static constexpr uint32_t kName = 1, kInput = 4, kOutput = 5, kAttribute = 6, kNode = 7,
                            kDocString = 8, kOpsetImport = 9, kDomain = 10;
};

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_SCHEMA_H
