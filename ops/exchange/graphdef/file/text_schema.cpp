#include "keel/ops/exchange/graphdef/file/text_schema.h"

#include <iterator>

#include "keel/ops/exchange/graphdef/file/schema.h"

namespace keel::graphdef {
namespace {

using Type = TextType;

template <size_t N>
constexpr TextMessage message_of(const TextField (&fields)[N]) {
  return {fields, N};
}

constexpr TextField kDimFields[] = {{"size", DimField::kSize, Type::kInteger}};
constexpr TextMessage kDim = message_of(kDimFields);

constexpr TextField kShapeFields[] = {
    {"dim", ShapeField::kDim, Type::kMessage, &kDim},
    {"unknown_rank", ShapeField::kUnknownRank, Type::kBool},
};
constexpr TextMessage kShape = message_of(kShapeFields);

constexpr TextField kTensorFields[] = {
    {"dtype", TensorField::kDtype, Type::kDataType},
    {"tensor_shape", TensorField::kShape, Type::kMessage, &kShape},
    {"tensor_content", TensorField::kContent, Type::kBytes},
    {"float_val", TensorField::kFloatVal, Type::kFloat},
    {"double_val", TensorField::kDoubleVal, Type::kDouble},
    {"int_val", TensorField::kIntVal, Type::kInteger},
    {"string_val", TensorField::kStringVal, Type::kBytes},
    {"int64_val", TensorField::kInt64Val, Type::kInteger},
    {"bool_val", TensorField::kBoolVal, Type::kBool},
    {"half_val", TensorField::kHalfVal, Type::kInteger},
    {"uint32_val", TensorField::kUint32Val, Type::kInteger},
    {"uint64_val", TensorField::kUint64Val, Type::kInteger},
};
constexpr TextMessage kTensor = message_of(kTensorFields);

constexpr TextField kFunctionNameFields[] = {{"name", NameAttrListField::kName, Type::kBytes}};
constexpr TextMessage kFunctionName = message_of(kFunctionNameFields);

constexpr TextField kListFields[] = {
    {"s", ListField::kS, Type::kBytes},
    {"i", ListField::kI, Type::kInteger},
    {"f", ListField::kF, Type::kFloat},
    {"b", ListField::kB, Type::kBool},
    {"type", ListField::kType, Type::kDataType},
    {"shape", ListField::kShape, Type::kMessage, &kShape},
    {"tensor", ListField::kTensor, Type::kMessage, &kTensor},
    {"func", ListField::kFunc, Type::kMessage, &kFunctionName},
};
constexpr TextMessage kList = message_of(kListFields);

constexpr TextField kValueFields[] = {
    {"list", AttrField::kList, Type::kMessage, &kList},
    {"s", AttrField::kS, Type::kBytes},
    {"i", AttrField::kI, Type::kInteger},
    {"f", AttrField::kF, Type::kFloat},
    {"b", AttrField::kB, Type::kBool},
    {"type", AttrField::kType, Type::kDataType},
    {"shape", AttrField::kShape, Type::kMessage, &kShape},
    {"tensor", AttrField::kTensor, Type::kMessage, &kTensor},
    {"placeholder", AttrField::kPlaceholder, Type::kBytes},
    {"func", AttrField::kFunc, Type::kMessage, &kFunctionName},
};
constexpr TextMessage kValue = message_of(kValueFields);

constexpr TextField kAttrFields[] = {
    {"key", EntryField::kKey, Type::kBytes},
    {"value", EntryField::kValue, Type::kMessage, &kValue},
};
constexpr TextMessage kAttr = message_of(kAttrFields);

constexpr TextField kNodeFields[] = {
    {"name", NodeField::kName, Type::kBytes},
    {"op", NodeField::kOp, Type::kBytes},
    {"input", NodeField::kInput, Type::kBytes},
    {"device", NodeField::kDevice, Type::kBytes},
    {"attr", NodeField::kAttr, Type::kMessage, &kAttr},
};
constexpr TextMessage kNode = message_of(kNodeFields);

constexpr TextField kArgFields[] = {{"name", ArgField::kName, Type::kBytes}};
constexpr TextMessage kArg = message_of(kArgFields);

constexpr TextField kSignatureFields[] = {
    {"name", SignatureField::kName, Type::kBytes},
    {"input_arg", SignatureField::kInputArg, Type::kMessage, &kArg},
    {"output_arg", SignatureField::kOutputArg, Type::kMessage, &kArg},
};
constexpr TextMessage kSignature = message_of(kSignatureFields);

constexpr TextField kRetFields[] = {
    {"key", EntryField::kKey, Type::kBytes},
    {"value", EntryField::kValue, Type::kBytes},
};
constexpr TextMessage kRet = message_of(kRetFields);

constexpr TextField kFunctionFields[] = {
    {"signature", FunctionField::kSignature, Type::kMessage, &kSignature},
    {"node_def", FunctionField::kNodeDef, Type::kMessage, &kNode},
    {"ret", FunctionField::kRet, Type::kMessage, &kRet},
};
constexpr TextMessage kFunction = message_of(kFunctionFields);

constexpr TextField kLibraryFields[] = {
    {"function", LibraryField::kFunction, Type::kMessage, &kFunction},
};
constexpr TextMessage kLibrary = message_of(kLibraryFields);

constexpr TextField kGraphFields[] = {
    {"node", GraphField::kNode, Type::kMessage, &kNode},
    {"library", GraphField::kLibrary, Type::kMessage, &kLibrary},
};
constexpr TextMessage kGraph = message_of(kGraphFields);

constexpr TextField kBytesListFields[] = {{"value", BytesListField::kValue, Type::kBytes}};
constexpr TextMessage kBytesList = message_of(kBytesListFields);

constexpr TextField kCollectionFields[] = {
    {"bytes_list", CollectionField::kBytesList, Type::kMessage, &kBytesList},
};
constexpr TextMessage kCollection = message_of(kCollectionFields);

constexpr TextField kCollectionEntryFields[] = {
    {"key", EntryField::kKey, Type::kBytes},
    {"value", EntryField::kValue, Type::kMessage, &kCollection},
};
constexpr TextMessage kCollectionEntry = message_of(kCollectionEntryFields);

constexpr TextField kMetaGraphFields[] = {
    {"graph_def", MetaGraphField::kGraphDef, Type::kMessage, &kGraph},
    {"collection_def", MetaGraphField::kCollection, Type::kMessage, &kCollectionEntry},
};
constexpr TextMessage kMetaGraph = message_of(kMetaGraphFields);

// By number, from 0; types.proto of TensorFlow 1.15.
constexpr std::string_view kDataTypes[] = {
    "DT_INVALID",    "DT_FLOAT",  "DT_DOUBLE",    "DT_INT32",   "DT_UINT8",   "DT_INT16",
    "DT_INT8",       "DT_STRING", "DT_COMPLEX64", "DT_INT64",   "DT_BOOL",    "DT_QINT8",
    "DT_QUINT8",     "DT_QINT32", "DT_BFLOAT16",  "DT_QINT16",  "DT_QUINT16", "DT_UINT16",
    "DT_COMPLEX128", "DT_HALF",   "DT_RESOURCE",  "DT_VARIANT", "DT_UINT32",  "DT_UINT64"};
constexpr int64_t kReference = 100;

}  // namespace

const TextField* TextMessage::find(std::string_view name) const {
  for (size_t i = 0; i < count; ++i)
    if (fields[i].name == name) return &fields[i];
  return nullptr;
}

const TextMessage& graph_schema() { return kGraph; }
const TextMessage& meta_graph_schema() { return kMetaGraph; }

int64_t data_type_number(std::string_view name) {
  constexpr std::string_view kSuffix = "_REF";
  const bool reference = name.ends_with(kSuffix);
  if (reference) name.remove_suffix(kSuffix.size());
  for (size_t i = 0; i < std::size(kDataTypes); ++i)
    if (kDataTypes[i] == name) return static_cast<int64_t>(i) + (reference ? kReference : 0);
  return -1;
}

}  // namespace keel::graphdef
