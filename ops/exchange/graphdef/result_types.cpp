#include "keel/ops/exchange/graphdef/result_types.h"

namespace keel::graphdef {
namespace {

// The attributes in which ops say the dtype of their first result, tried in this order for a value
// that the user cuts the graph at, where the table below says nothing of it.
constexpr const char* kTypeAttributes[] = {"DstT", "dtype", "out_type", "output_type", "T"};

// The dtype of results from one of them on, up to the next entry of the op.
struct ResultType {
  const char* op;
  size_t first;
  const char* attribute;  // null: always the dtype that follows
  DataType otherwise = DataType::kInvalid;
};
constexpr ResultType kResultTypes[] = {
    {"Equal", 0, nullptr, DataType::kBool},
    {"NotEqual", 0, nullptr, DataType::kBool},
    {"ApproximateEqual", 0, nullptr, DataType::kBool},
    {"Less", 0, nullptr, DataType::kBool},
    {"LessEqual", 0, nullptr, DataType::kBool},
    {"Greater", 0, nullptr, DataType::kBool},
    {"GreaterEqual", 0, nullptr, DataType::kBool},
    {"LogicalAnd", 0, nullptr, DataType::kBool},
    {"LogicalOr", 0, nullptr, DataType::kBool},
    {"LogicalNot", 0, nullptr, DataType::kBool},
    {"All", 0, nullptr, DataType::kBool},
    {"Any", 0, nullptr, DataType::kBool},
    {"IsNan", 0, nullptr, DataType::kBool},
    {"IsInf", 0, nullptr, DataType::kBool},
    {"IsFinite", 0, nullptr, DataType::kBool},
    {"IsVariableInitialized", 0, nullptr, DataType::kBool},
    {"VarIsInitializedOp", 0, nullptr, DataType::kBool},
    {"InTopK", 0, nullptr, DataType::kBool},
    {"InTopKV2", 0, nullptr, DataType::kBool},
    // Types of indices and sizes, which files leave out where they are the default.
    {"ArgMax", 0, "output_type", DataType::kInt64},
    {"ArgMin", 0, "output_type", DataType::kInt64},
    {"Shape", 0, "out_type", DataType::kInt32},
    {"ShapeN", 0, "out_type", DataType::kInt32},
    {"Size", 0, "out_type", DataType::kInt32},
    {"Rank", 0, nullptr, DataType::kInt32},
    {"Where", 0, nullptr, DataType::kInt64},
    {"Multinomial", 0, "output_dtype", DataType::kInt64},
    {"RandomUniformInt", 0, "Tout"},
    {"Bitcast", 0, "type"},
    {"Bucketize", 0, nullptr, DataType::kInt32},
    {"TopK", 0, "T"},
    {"TopK", 1, nullptr, DataType::kInt32},
    {"TopKV2", 0, "T"},
    {"TopKV2", 1, "index_type", DataType::kInt32},
    {"Unique", 0, "T"},
    {"Unique", 1, "out_idx", DataType::kInt32},
    {"Merge", 0, "T"},
    {"Merge", 1, nullptr, DataType::kInt32},
    {"UniqueWithCounts", 0, "T"},
    {"UniqueWithCounts", 1, "out_idx", DataType::kInt32},
    {"ListDiff", 0, "T"},
    {"ListDiff", 1, "out_idx", DataType::kInt32},
    {"NonMaxSuppression", 0, nullptr, DataType::kInt32},
    {"NonMaxSuppressionV2", 0, nullptr, DataType::kInt32},
    {"NonMaxSuppressionV3", 0, nullptr, DataType::kInt32},
    {"NonMaxSuppressionV4", 0, nullptr, DataType::kInt32},
    {"NonMaxSuppressionV5", 0, nullptr, DataType::kInt32},
    {"NonMaxSuppressionV5", 1, "T"},
    {"NonMaxSuppressionV5", 2, nullptr, DataType::kInt32},
    {"MaxPoolWithArgmax", 0, "T"},
    {"MaxPoolWithArgmax", 1, "Targmax", DataType::kInt64},
    {"TensorArrayV3", 0, nullptr, DataType::kResource},
    {"TensorArrayV3", 1, nullptr, DataType::kFloat},
    {"TensorArrayConcatV3", 0, "dtype"},
    {"TensorArrayConcatV3", 1, nullptr, DataType::kInt64},
    // Resized images are f32 whatever they were.
    {"ResizeBilinear", 0, nullptr, DataType::kFloat},
    {"ResizeBicubic", 0, nullptr, DataType::kFloat},
    {"ResizeArea", 0, nullptr, DataType::kFloat},
    {"CropAndResize", 0, nullptr, DataType::kFloat},
    // Statistics are wider than the images.
    {"FusedBatchNormV2", 0, "T"},
    {"FusedBatchNormV2", 1, "U"},
    {"FusedBatchNormV3", 0, "T"},
    {"FusedBatchNormV3", 1, "U"},
    {"FusedBatchNormGradV2", 0, "T"},
    {"FusedBatchNormGradV2", 1, "U"},
    {"FusedBatchNormGradV3", 0, "T"},
    {"FusedBatchNormGradV3", 1, "U"},
    // All results of these are of one dtype.
    {"FusedBatchNorm", 0, "T"},
    {"FusedBatchNormGrad", 0, "T"},
    {"SoftmaxCrossEntropyWithLogits", 0, "T"},
    {"SparseSoftmaxCrossEntropyWithLogits", 0, "T"},
    {"BroadcastGradientArgs", 0, "T"},
    {"Split", 0, "T"},
    {"SplitV", 0, "T"},
    {"Unpack", 0, "T"},
    {"Switch", 0, "T"},
    {"DynamicPartition", 0, "T"},
    {"BlockLSTM", 0, "T"},
    {"BlockLSTMV2", 0, "T"},
    {"LSTMBlockCell", 0, "T"},
    {"GRUBlockCell", 0, "T"},
    {"CudnnRNN", 0, "T"},
    {"CudnnRNNV2", 0, "T"},
    {"Svd", 0, "T"},
    {"Qr", 0, "T"},
    {"SelfAdjointEigV2", 0, "T"},
};

DataType type_in(const NodeDef& node, const char* name) {
  if (name == nullptr) return DataType::kInvalid;
  const AttrValue* type = find_attribute(node, name, AttrValue::Kind::kType);
  return type == nullptr ? DataType::kInvalid : static_cast<DataType>(type->ints[0]);
}

}  // namespace

DataType result_type(const NodeDef& node, size_t output) {
  const ResultType* known = nullptr;
  for (const ResultType& entry : kResultTypes)
    if (node.op == entry.op && entry.first <= output) known = &entry;
  if (known != nullptr) {
    const DataType type = type_in(node, known->attribute);
    return type == DataType::kInvalid ? known->otherwise : type;
  }
  if (output > 0) return DataType::kInvalid;
  for (const char* name : kTypeAttributes)
    if (const DataType type = type_in(node, name); type != DataType::kInvalid) return type;
  return DataType::kInvalid;
}

}  // namespace keel::graphdef
