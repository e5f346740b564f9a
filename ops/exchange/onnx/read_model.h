// An ONNX file as plain values: what its protocol-buffer messages say, nothing interpreted.
// read_model and read_tensor_file take nothing on trust: every field is checked against the bytes
// that are there, and memory is bounded by the read budget (core/base/read_budget.h). The structs
// own what they hold, except the raw data of tensors, which lies in the bytes of the file that
// `bytes` keeps. Plain values; any thread.
#ifndef KEEL_OPS_EXCHANGE_ONNX_READ_MODEL_H
#define KEEL_OPS_EXCHANGE_ONNX_READ_MODEL_H

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"
#include "keel/ops/exchange/onnx/schema.h"

namespace keel::onnx {

struct TensorProto {
  std::string name;
  std::vector<int64_t> dims;
  DataType type = DataType::kUndefined;
  std::optional<std::string_view> raw;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int64_t> integers;  // of int32_data, int64_data or uint64_data
  bool has_strings = false;
  bool external = false;
  std::map<std::string, std::string> external_data;  // location, offset, length
};

// A dimension: a number, or -1 where it has a name (perhaps an empty one) or nothing.
struct Dimension {
  int64_t size = -1;
  std::string name;
};

struct ValueInfo {
  enum class Kind { kUnknown, kTensor, kSparseTensor, kSequence, kMap, kOptional };
  std::string name;
  Kind kind = Kind::kUnknown;
  DataType type = DataType::kUndefined;         // of a tensor
  std::optional<std::vector<Dimension>> shape;  // nothing where not even the rank is said
};

struct GraphProto;

struct AttributeProto {
  std::string name;
  AttributeType type = AttributeType::kUndefined;
  bool needs_no_rule = false;  // it says what the operands say, too: nobody has to ask for it
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::shared_ptr<const TensorProto> tensor;
  std::shared_ptr<const GraphProto> graph;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
};

struct NodeProto {
  std::string name, op, domain;
  std::vector<std::string> inputs, outputs;  // an empty name stands for nothing
  std::vector<AttributeProto> attributes;
  int place = 0;  // among the nodes of its file's graph, from 1; 0 where that is its place here
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<std::string> sparse_initializers;  // their names
  std::vector<ValueInfo> inputs, outputs;
  std::vector<ValueInfo> results;  // the types that the file gives to results of its nodes
};

struct ModelProto {
  std::string source;  // the file's path, or what stands for it in errors
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, int64_t> opsets;  // version by domain; "ai.onnx" is ""
  GraphProto graph;
  bool has_functions = false;
  bool has_training_info = false;  // how it is trained, beside the graph
  std::shared_ptr<const std::string> bytes;
};

// Throw Error naming the file and the place for a file that cannot be read, is no ONNX model or is
// damaged.
KEEL_API ModelProto read_model(const std::string& path);
KEEL_API ModelProto parse_model(std::string bytes, const std::string& source_name);

// Returns the paths of the files that hold data of the model's tensors beside its own, each once.
KEEL_API std::vector<std::string> external_files(const ModelProto& model);

// Returns the dtype that Keel has for it, or nothing.
KEEL_API std::optional<DType> dtype_of(DataType type);
// "FLOAT", "INT8", ... and "type 99" for a number that ONNX 1.12 has not.
KEEL_API std::string name_of(DataType type);

// Returns the tensor's elements. `source` is the model's file: data outside of it is read from
// files of the same folder only, never through links. Throws Error for a dtype that Keel has not,
// for data that does not fit the dimensions, and for external data from elsewhere.
KEEL_API Tensor to_tensor(const TensorProto& proto, const std::string& source);

// Reads a file with one tensor, as the test data of ONNX has them. With `wanted`, 16-bit numbers
// that the file calls UINT16 may be of that dtype (bf16 has no NumPy type). Throws Error.
KEEL_API Tensor read_tensor_file(const std::string& path, std::optional<DType> wanted = {});

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_READ_MODEL_H
