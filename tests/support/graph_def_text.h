// TensorFlow graphs in text form, for tests of their import: nodes with attributes, tensors.
#ifndef KEEL_TESTS_SUPPORT_GRAPH_DEF_TEXT_H
#define KEEL_TESTS_SUPPORT_GRAPH_DEF_TEXT_H

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/tensor/tensor.h"

namespace keel_test {

// name: a field of an attribute's value, as in {"T", "type: DT_FLOAT"}.
using NodeAttributes = std::vector<std::pair<std::string, std::string>>;

inline std::string node_text(const std::string& name, const std::string& op,
                             const std::vector<std::string>& inputs = {},
                             const NodeAttributes& attributes = {}) {
  std::string text = "node { name: \"" + name + "\" op: \"" + op + "\"";
  for (const std::string& input : inputs) text += " input: \"" + input + "\"";
  for (const auto& attribute : attributes)
    text += " attr { key: \"" + attribute.first + "\" value { " + attribute.second + " } }";
  return text + " }\n";
}

inline std::string type_text(keel::DType dtype) {
  switch (dtype) {
    case keel::f64:
      return "DT_DOUBLE";
    case keel::f16:
      return "DT_HALF";
    case keel::i64:
      return "DT_INT64";
    case keel::i32:
      return "DT_INT32";
    case keel::u8:
      return "DT_UINT8";
    case keel::boolean:
      return "DT_BOOL";
    default:
      return "DT_FLOAT";
  }
}

inline std::string shape_text(const keel::Shape& shape) {
  std::string text = "shape {";
  for (const int64_t dim : shape) text += " dim { size: " + std::to_string(dim) + " }";
  return text + " }";
}

// The elements one by one, in the field of their dtype.
inline std::string tensor_text(const keel::Tensor& tensor) {
  const keel::DType dtype = tensor.dtype();
  std::string text =
      "tensor { dtype: " + type_text(dtype) + " tensor_" + shape_text(tensor.shape());
  const char* field = dtype == keel::f32       ? "float_val"
                      : dtype == keel::f64     ? "double_val"
                      : dtype == keel::i64     ? "int64_val"
                      : dtype == keel::boolean ? "bool_val"
                                               : "int_val";
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    char number[64];
    const bool whole = !keel::is_float(dtype);
    if (dtype == keel::boolean)
      std::snprintf(number, sizeof number, "%s", tensor.at(i) != 0 ? "true" : "false");
    else
      std::snprintf(number, sizeof number, whole ? "%.0f" : "%.17g", tensor.at(i));
    text += std::string(" ") + field + ": " + number;
  }
  return text + " }";
}

inline std::string placeholder_text(const std::string& name, keel::DType dtype,
                                    const keel::Shape& shape) {
  return node_text(name, "Placeholder", {},
                   {{"dtype", "type: " + type_text(dtype)}, {"shape", shape_text(shape)}});
}

inline std::string const_text(const std::string& name, const keel::Tensor& value) {
  return node_text(name, "Const", {},
                   {{"dtype", "type: " + type_text(value.dtype())}, {"value", tensor_text(value)}});
}

// A variable with its initial value and the node that assigns it.
inline std::string variable_text(const std::string& name, const keel::Tensor& value) {
  return node_text(name, "VariableV2", {},
                   {{"dtype", "type: " + type_text(value.dtype())},
                    {"shape", shape_text(value.shape())},
                    {"container", "s: ''"},
                    {"shared_name", "s: ''"}}) +
         const_text(name + "/initial_value", value) +
         node_text(name + "/Assign", "Assign", {name, name + "/initial_value"},
                   {{"use_locking", "b: true"}, {"validate_shape", "b: true"}}) +
         node_text(name + "/read", "Identity", {name}, {{"_class", "list { s: 'loc:@w' }"}});
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_GRAPH_DEF_TEXT_H
