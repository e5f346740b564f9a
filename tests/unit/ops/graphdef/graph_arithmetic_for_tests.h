// The few ops that the interpreters of test graphs know beside control flow.
#ifndef KEEL_TESTS_UNIT_OPS_GRAPHDEF_GRAPH_ARITHMETIC_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_GRAPHDEF_GRAPH_ARITHMETIC_FOR_TESTS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/graphdef/graph_builder_for_tests.h"

namespace keel_test {

using Feeds1 = std::map<std::string, Numbers>;

inline double rounded_as(DataType type, double value) {
  if (type == DataType::kFloat) return static_cast<float>(value);
  if (type == DataType::kInt32)
    return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value)));
  return value;
}

inline double combined(const std::string& op, double a, double b) {
  if (op == "Add" || op == "AddV2") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Maximum") return std::max(a, b);
  if (op == "Minimum") return std::min(a, b);
  if (op == "FloorMod") return a - b * std::floor(a / b);
  if (op == "Less") return a < b ? 1 : 0;
  if (op == "Greater") return a > b ? 1 : 0;
  if (op == "LogicalAnd") return a != 0 && b != 0 ? 1 : 0;
  if (op == "LogicalOr") return a != 0 || b != 0 ? 1 : 0;
  throw std::runtime_error("the test's interpreters have no op " + op);
}

inline bool gives_bool(const std::string& op) {
  return op == "Less" || op == "Greater" || op == "LogicalAnd" || op == "LogicalOr" ||
         op == "LogicalNot";
}

// A scalar meets each element of a vector.
inline Numbers two_combined(const std::string& op, const Numbers& a, const Numbers& b) {
  if (a.type != b.type) throw std::runtime_error(op + " of two types");
  const Numbers& longer = a.dims.size() >= b.dims.size() ? a : b;
  Numbers result{gives_bool(op) ? DataType::kBool : a.type, longer.dims, {}};
  for (size_t i = 0; i < longer.elements.size(); ++i)
    result.elements.push_back(rounded_as(
        result.type,
        combined(op, a.elements[a.dims.empty() ? 0 : i], b.elements[b.dims.empty() ? 0 : i])));
  return result;
}

// Computes a node that has no control flow in it.
inline std::vector<Numbers> computed(const NodeDef& node, const std::vector<Numbers>& inputs,
                                     const Feeds1& feeds) {
  if (node.op == "Const") return {numbers_of(node)};
  if (node.op == "Placeholder") return {feeds.at(node.name)};
  if (node.op == "NoOp") return {};
  if (node.op == "Identity" || node.op == "IdentityN") return inputs;
  if (node.op == "Neg" || node.op == "LogicalNot") {
    Numbers result = inputs.at(0);
    for (double& element : result.elements)
      element = node.op == "Neg" ? rounded_as(result.type, -element) : (element == 0 ? 1 : 0);
    return {result};
  }
  return {two_combined(node.op, inputs.at(0), inputs.at(1))};
}

inline bool same_numbers(const Numbers& a, const Numbers& b) {
  return a.type == b.type && a.dims == b.dims &&
         std::equal(a.elements.begin(), a.elements.end(), b.elements.begin(), b.elements.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_OPS_GRAPHDEF_GRAPH_ARITHMETIC_FOR_TESTS_H
