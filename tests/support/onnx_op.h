// Runs one op of ONNX on operands that are fed to the model or held by it.
#ifndef KEEL_TESTS_SUPPORT_ONNX_OP_H
#define KEEL_TESTS_SUPPORT_ONNX_OP_H

#include <string>
#include <utility>
#include <vector>

#include "keel/keel.h"
#include "keel/ops/exchange/onnx/import.h"

#include "support/onnx_bytes.h"

namespace keel_test {

struct OnnxOperand {
  std::string name;  // empty: the op does without
  keel::Tensor value;
  bool held = false;
  std::vector<int64_t> declared = {};  // the shape in the file where it is fed; empty: its own
};

struct OnnxOp {
  std::string op;
  std::vector<OnnxOperand> operands;
  std::vector<std::string> attributes = {};
  std::vector<std::string> outputs = {"y"};
  int64_t opset = 17;

  // Returns the number that ONNX gives a dtype.
  static int number_of(keel::DType dtype) {
    switch (dtype) {
      case keel::DType::kF32:
        return 1;
      case keel::DType::kU8:
        return 2;
      case keel::DType::kI32:
        return 6;
      case keel::DType::kI64:
        return 7;
      case keel::DType::kBool:
        return 9;
      case keel::DType::kF16:
        return 10;
      case keel::DType::kF64:
        return 11;
      case keel::DType::kBF16:
        return 16;
      default:
        throw keel::Error({.op = "OnnxOp",
                           .argument = "operand",
                           .expected = "f64, f32, f16, bf16, i64, i32, u8 or bool",
                           .got = keel::name_of(dtype),
                           .fix = "add its number of ONNX to number_of()"});
    }
  }

  keel::onnx::ImportedModel import() const {
    OnnxGraph graph;
    std::vector<std::string> inputs;
    for (const OnnxOperand& operand : operands) {
      inputs.push_back(operand.name);
      if (operand.name.empty()) continue;
      const keel::DType dtype = operand.value.dtype();
      const int type = number_of(dtype);
      const auto& own = operand.value.shape();
      const std::vector<int64_t> shape(own.begin(), own.end());
      if (!operand.held)
        graph.inputs.push_back(
            onnx_value(operand.name, type, operand.declared.empty() ? shape : operand.declared));
      else
        graph.initializers.push_back(onnx_tensor(
            operand.name, type, shape,
            bytes_field(
                9, {static_cast<const char*>(operand.value.raw()),
                    static_cast<size_t>(operand.value.num_elements()) * keel::size_of(dtype)})));
    }
    graph.nodes = {onnx_node(op, inputs, outputs, attributes)};
    for (const std::string& output : outputs) graph.outputs.push_back(bytes_field(1, output));
    return keel::onnx::import_model(keel::onnx::parse_model(onnx_model(graph, opset), "m.onnx"),
                                    {});
  }

  // Imports and runs it; the first output.
  keel::Tensor run(const std::string& backend = "ref") const {
    const keel::onnx::ImportedModel model = import();
    keel::Session session(*model.graph, keel::device(backend));
    keel::Feeds feeds;
    for (const OnnxOperand& operand : operands)
      if (!operand.held && !operand.name.empty())
        feeds.push_back({model.input(operand.name), operand.value});
    return session.run(model.output(outputs[0]), feeds);
  }
};

inline keel::Tensor onnx_int64(const keel::Shape& shape, const std::vector<int64_t>& values) {
  return keel::Tensor::of<int64_t>(shape, values);
}

// 0, 1, 2, ... in that shape.
inline keel::Tensor onnx_counting(const keel::Shape& shape) {
  keel::Tensor tensor(keel::f32, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.set(i, static_cast<double>(i));
  return tensor;
}

inline std::vector<double> elements_of(const keel::Tensor& tensor) {
  std::vector<double> all;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) all.push_back(tensor.at(i));
  return all;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_ONNX_OP_H
