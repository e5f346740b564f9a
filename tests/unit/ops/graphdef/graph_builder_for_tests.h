// Makes GraphDefs node by node, and reads small tensors of them.
#ifndef KEEL_TESTS_UNIT_OPS_GRAPHDEF_GRAPH_BUILDER_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_GRAPHDEF_GRAPH_BUILDER_FOR_TESTS_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keel/ops/exchange/graphdef/file/graph_def.h"

namespace keel_test {

using keel::graphdef::AttrValue;
using keel::graphdef::Body;
using keel::graphdef::DataType;
using keel::graphdef::GraphDef;
using keel::graphdef::NodeDef;

// A tensor of numbers; doubles hold each int32, float and bool.
struct Numbers {
  DataType type = DataType::kFloat;
  std::vector<int64_t> dims;  // of a scalar or a vector
  std::vector<double> elements;
};

inline AttrValue type_attribute(DataType type) {
  return {.kind = AttrValue::Kind::kType, .ints = {static_cast<int64_t>(type)}};
}
inline AttrValue text_attribute(const std::string& text) {
  return {.kind = AttrValue::Kind::kString, .strings = {text}};
}
inline AttrValue flag_attribute(bool value) {
  return {.kind = AttrValue::Kind::kBool, .ints = {value ? 1 : 0}};
}
inline AttrValue tensor_attribute(const Numbers& numbers) {
  auto tensor = std::make_shared<keel::graphdef::TensorProto>();
  tensor->type = numbers.type;
  tensor->shape = numbers.dims;
  for (const double element : numbers.elements) {
    if (numbers.type == DataType::kFloat) {
      tensor->floats.push_back(static_cast<float>(element));
    } else {
      tensor->integers.push_back(static_cast<int64_t>(element));
    }
  }
  return {.kind = AttrValue::Kind::kTensor, .tensors = {std::move(tensor)}};
}

inline Numbers numbers_of(const NodeDef& constant) {
  const auto& tensor = *constant.attributes.at("value").tensors.at(0);
  Numbers numbers{tensor.type, *tensor.shape, {}};
  for (const float element : tensor.floats) numbers.elements.push_back(element);
  for (const int64_t element : tensor.integers)
    numbers.elements.push_back(static_cast<double>(element));
  return numbers;
}

inline NodeDef make_node(const std::string& name, const std::string& op,
                         std::vector<std::string> inputs,
                         std::map<std::string, AttrValue> attributes = {}) {
  NodeDef node;
  node.name = name;
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  return node;
}

inline NodeDef make_constant(const std::string& name, const Numbers& value,
                             std::vector<std::string> inputs = {}) {
  return make_node(name, "Const", std::move(inputs),
                   {{"dtype", type_attribute(value.type)}, {"value", tensor_attribute(value)}});
}

inline NodeDef make_enter(const std::string& name, const std::string& input,
                          const std::string& frame, bool is_constant = false) {
  return make_node(
      name, "Enter", {input},
      {{"frame_name", text_attribute(frame)}, {"is_constant", flag_attribute(is_constant)}});
}

inline Numbers scalar(double value, DataType type = DataType::kInt32) {
  return {type, {}, {value}};
}

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_OPS_GRAPHDEF_GRAPH_BUILDER_FOR_TESTS_H
