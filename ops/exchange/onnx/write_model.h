// A model on its way into an ONNX file: nodes, graphs and tensors as the exporter makes them, and
// their encoding (IR version 8, opset 17). Plain values; tensors share their buffers with whoever
// made them, so a model in this form needs no second copy of its weights. One thread at a time.
#ifndef KEEL_OPS_EXCHANGE_ONNX_WRITE_MODEL_H
#define KEEL_OPS_EXCHANGE_ONNX_WRITE_MODEL_H

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/ops/exchange/onnx/schema.h"

namespace keel::onnx {

inline constexpr int64_t kWrittenIrVersion = 8;
inline constexpr int64_t kWrittenOpset = 17;

// Returns ONNX's number for a dtype; throws Error for kToken, which no tensor has.
DataType onnx_type(DType dtype);

// One dimension of an input or output: its size, or where `symbol` is not empty a name for what the
// run decides.
struct WrittenDimension {
  int64_t size = 0;
  std::string symbol = {};
};

struct WrittenValue {
  std::string name;
  DType dtype = f32;
  std::vector<WrittenDimension> shape;
};

struct WrittenGraph;

// The kinds of value that an attribute may hold; a graph is a body of Loop or If.
using WrittenAttributeValue =
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, Tensor,
                 std::shared_ptr<const WrittenGraph>>;
using WrittenAttributes = std::vector<std::pair<std::string, WrittenAttributeValue>>;

struct WrittenNode {
  std::string op_type;
  std::string name;
  std::vector<std::string> inputs;  // an empty one is left out
  std::vector<std::string> outputs;
  WrittenAttributes attributes;
};

struct WrittenTensor {
  std::string name;
  Tensor value;
};

struct WrittenGraph {
  std::string name;
  std::vector<WrittenNode> nodes;
  std::vector<WrittenTensor> initializers;
  std::vector<WrittenValue> inputs;
  std::vector<WrittenValue> outputs;
};

struct WrittenModel {
  WrittenGraph graph;
  std::string producer_name = "keel";
  std::string producer_version;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Protocol buffers end at 2 GiB; the rest of a model beside its tensors is far below the room left.
inline constexpr uint64_t kMostInlineBytes = (uint64_t{1} << 31) - (uint64_t{1} << 26);

// Writes the model. Where its initializers take more than `most_inline_bytes`, those of at least a
// KiB go to a second file in the same folder, named like the model with ".data" behind it, which is
// in place before the model is. Throws Error, and both files are as they were, where one cannot be
// written or the model is too large without its initializers; but where the second is written and
// cannot be put in place, the first is there already.
void write_model(const WrittenModel& model, const std::string& path,
                 uint64_t most_inline_bytes = kMostInlineBytes);

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_WRITE_MODEL_H
