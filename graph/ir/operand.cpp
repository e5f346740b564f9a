#include "keel/graph/ir/operand.h"

#include <cmath>

#include "keel/core/tensor/convert.h"
#include "keel/graph/ir/graph.h"

namespace keel {
namespace {

[[noreturn]] void literal_failed(const Operand& operand, DType dtype, const char* op,
                                 const std::string& got, const std::string& fix) {
  throw Error({.op = op,
               .argument = "literal",
               .expected = std::string("a number that fits ") + name_of(dtype),
               .got = got,
               .fix = fix,
               .site = operand.site()});
}

Tensor literal_tensor(const Operand& operand, DType dtype, const char* op) {
  Tensor t(dtype, Shape{});
  if (is_float(dtype)) {
    t.set(0, operand.number());
    if (std::isinf(t.at(0)) && !std::isinf(operand.number())) {
      literal_failed(operand, dtype, op, std::to_string(operand.number()), "use a wider dtype");
    }
    return t;
  }
  const std::string text =
      operand.integral() ? std::to_string(operand.integer()) : std::to_string(operand.number());
  if (dtype == boolean) literal_failed(operand, dtype, op, text, "use a bool constant");
  if (!operand.integral() && operand.number() != std::floor(operand.number())) {
    literal_failed(operand, dtype, op, text, "cast the tensor to a float dtype first");
  }
  const int64_t value =
      operand.integral() ? operand.integer() : convert_element<int64_t>(operand.number());
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (value < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
          value > static_cast<int64_t>(std::numeric_limits<T>::max())) {
        literal_failed(operand, dtype, op, text, "cast the tensor to a wider dtype first");
      }
      t.data<T>()[0] = static_cast<T>(value);
    }
  });
  return t;
}

}  // namespace

Value require_value(const Operand& operand, const char* op, const char* argument, CallSite site) {
  if (!operand.is_literal()) return operand.value();
  throw Error({.op = op,
               .argument = argument,
               .expected = "a Value",
               .got = operand.is_empty_value() ? "an empty Value" : "a number",
               .fix = operand.is_empty_value()
                          ? "give it one first: an input, a state, or the result of an op"
                          : "make it a constant of a graph (graph.constant)",
               .site = site.known() ? site : operand.site()});
}

Value to_value(const Operand& operand, Graph& graph, DType dtype, const char* op) {
  if (!operand.is_literal()) return operand.value();
  if (operand.is_empty_value()) return require_value(operand, op, "");
  return graph.constant(literal_tensor(operand, dtype, op), operand.site());
}

}  // namespace keel
