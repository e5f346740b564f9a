#include "keel/graph/ir/operand.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

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

// Above what int64_t holds: integer() has the bits of a uint64_t then.
bool is_beyond_signed(const Operand& operand) {
  return operand.integral() && operand.integer() < 0 && operand.number() > 0;
}

// Shortest digits that give the number back.
std::string text_of(const Operand& operand) {
  if (is_beyond_signed(operand)) return std::to_string(static_cast<uint64_t>(operand.integer()));
  if (operand.integral()) return std::to_string(operand.integer());
  char digits[32];  // of the longest double
  return std::string(digits, std::to_chars(digits, std::end(digits), operand.number()).ptr);
}

template <class T>
bool fits(const Operand& operand) {
  using Limits = std::numeric_limits<T>;
  if (is_beyond_signed(operand)) return false;
  if (operand.integral()) return std::in_range<T>(operand.integer());
  // The number above the largest is a power of two, which doubles hold; the largest i64 they do
  // not.
  const double above = std::ldexp(1.0, Limits::digits);
  return operand.number() >= static_cast<double>(Limits::min()) && operand.number() < above;
}

Tensor literal_tensor(const Operand& operand, DType dtype, const char* op) {
  Tensor t(dtype, Shape{});
  const auto fail = [&](const std::string& fix) {
    literal_failed(operand, dtype, op, text_of(operand), fix);
  };
  if (dtype == boolean) fail("use a bool constant");
  if (is_float(dtype)) {
    t.set(0, operand.number());
    if (std::isinf(t.at(0)) && !std::isinf(operand.number())) fail("use a wider dtype");
    return t;
  }
  if (!operand.integral() && operand.number() != std::floor(operand.number())) {
    fail("cast the tensor to a float dtype first");
  }
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!fits<T>(operand)) {
        fail(dtype == i64 ? "cast the tensor to a float dtype first"
                          : "cast the tensor to a wider dtype first");
      }
      t.data<T>()[0] =
          operand.integral() ? static_cast<T>(operand.integer()) : static_cast<T>(operand.number());
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
