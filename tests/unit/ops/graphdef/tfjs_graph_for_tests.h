// A test's graph as TensorFlow.js takes it: the GraphDef as JSON, constants beside it.
#ifndef KEEL_TESTS_UNIT_OPS_GRAPHDEF_TFJS_GRAPH_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_GRAPHDEF_TFJS_GRAPH_FOR_TESTS_H

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "ops/graphdef/graph_arithmetic_for_tests.h"

namespace keel_test {

inline std::string base64(const std::string& bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

inline std::string tfjs_dtype(DataType type) {
  return type == DataType::kFloat ? "float32" : type == DataType::kInt32 ? "int32" : "bool";
}

inline nlohmann::json tfjs_tensor(const std::string& name, const Numbers& numbers) {
  return {{"name", name},
          {"dtype", tfjs_dtype(numbers.type)},
          {"shape", numbers.dims},
          {"values", numbers.elements}};
}

inline nlohmann::json tfjs_attribute(const AttrValue& attribute) {
  switch (attribute.kind) {
    case AttrValue::Kind::kString:
      return {{"s", base64(attribute.strings.at(0))}};
    case AttrValue::Kind::kInt:
      return {{"i", attribute.ints.at(0)}};
    case AttrValue::Kind::kBool:
      return {{"b", attribute.ints.at(0) != 0}};
    case AttrValue::Kind::kType: {
      const auto type = static_cast<DataType>(attribute.ints.at(0));
      return {{"type", type == DataType::kFloat   ? "DT_FLOAT"
                       : type == DataType::kInt32 ? "DT_INT32"
                                                  : "DT_BOOL"}};
    }
    case AttrValue::Kind::kShape: {
      nlohmann::json dims = nlohmann::json::array();
      for (const int64_t dim : *attribute.shapes.at(0)) dims.push_back({{"size", dim}});
      return {{"shape", {{"dim", dims}}}};
    }
    default:
      throw std::runtime_error("an attribute that the test's graphs have not");
  }
}

inline nlohmann::json tfjs_case(const GraphDef& graph, const Feeds1& feeds,
                                const std::vector<std::string>& outputs) {
  nlohmann::json nodes = nlohmann::json::array();
  nlohmann::json constants = nlohmann::json::array();
  nlohmann::json fed = nlohmann::json::array();
  for (const NodeDef& node : graph.nodes) {
    nlohmann::json attributes = nlohmann::json::object();
    for (const auto& [name, value] : node.attributes)
      if (value.kind != AttrValue::Kind::kTensor) attributes[name] = tfjs_attribute(value);
    nodes.push_back(
        {{"name", node.name}, {"op", node.op}, {"input", node.inputs}, {"attr", attributes}});
    if (node.op == "Const") constants.push_back(tfjs_tensor(node.name, numbers_of(node)));
  }
  for (const auto& [name, value] : feeds) fed.push_back(tfjs_tensor(name, value));
  return {{"topology",
           {{"node", nodes},
            {"library", nlohmann::json::object()},
            {"versions", nlohmann::json::object()}}},
          {"constants", constants},
          {"feeds", fed},
          {"outputs", outputs}};
}

inline Numbers tfjs_numbers(const nlohmann::json& output) {
  Numbers numbers;
  for (const DataType type : {DataType::kFloat, DataType::kInt32, DataType::kBool})
    if (output.at("dtype") == tfjs_dtype(type)) numbers.type = type;
  numbers.dims = output.at("shape").get<std::vector<int64_t>>();
  for (const nlohmann::json& value : output.at("values"))
    numbers.elements.push_back(value.is_string() ? std::stod(value.get<std::string>())
                                                 : value.get<double>());
  return numbers;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_OPS_GRAPHDEF_TFJS_GRAPH_FOR_TESTS_H
