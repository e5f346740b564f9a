// Operand: what builder functions take: a Value or a C++ number, with the
// caller's source line. A literal adopts the dtype of the value it meets; a
// fraction with an integer tensor is an error. Plain values.
#ifndef KEEL_GRAPH_IR_OPERAND_H
#define KEEL_GRAPH_IR_OPERAND_H

#include <concepts>
#include <cstddef>
#include <string>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/graph/ir/value.h"

namespace keel {

template <class T>
concept Number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>;

class Operand {
 public:
  Operand(Value value, CallSite site = CallSite::here())
      : value_(value), empty_(!value.valid()), site_(site) {}
  template <Number T>
  Operand(T number, CallSite site = CallSite::here())
      : number_(static_cast<double>(number)), integral_(std::is_integral_v<T>), site_(site) {
    if constexpr (std::is_integral_v<T>) integer_ = static_cast<int64_t>(number);
  }
  Operand(bool) = delete;
  // No dtype holds its range; convert it to double where the number is made.
  Operand(long double) = delete;
  Operand(std::nullptr_t) = delete;

  // No value stands behind it: a number, or an empty Value, which no op takes.
  bool is_literal() const noexcept { return !value_.valid(); }
  bool is_empty_value() const noexcept { return empty_; }
  const Value& value() const noexcept { return value_; }
  double number() const noexcept { return number_; }
  // Returns an integral number's value, else 0.
  int64_t integer() const noexcept { return integer_; }
  bool integral() const noexcept { return integral_; }
  CallSite site() const noexcept { return site_; }
  // Returns the same operand seen from a caller further out.
  Operand at(CallSite site) const {
    Operand o = *this;
    o.site_ = site;
    return o;
  }

 private:
  Value value_;
  double number_ = 0;
  int64_t integer_ = 0;
  bool integral_ = false;
  bool empty_ = false;
  CallSite site_;
};

// Returns the line that a function names in errors: `site`, or where that is not known the one that
// made its first operand.
inline CallSite line_of(const Operand& first, CallSite site) {
  return site.known() ? site : first.site();
}

// Returns the operand's value, for functions that look at it before they add a node. Throws Error
// naming `site`, or where that is not known the operand's line, for a number and for an empty
// Value.
KEEL_API Value require_value(const Operand& operand, const char* op, const char* argument,
                             CallSite site = {});

// Returns the operand as a Value of `graph`: a literal becomes a scalar constant of
// `dtype` (Error when it does not fit, and for an empty Value).
KEEL_API Value to_value(const Operand& operand, Graph& graph, DType dtype, const char* op);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_OPERAND_H
