// Integers of the formats that are imported, exact at the ends of their dtypes. Pure functions;
// those that take Values add nodes to the graph of these.
#ifndef KEEL_OPS_EXCHANGE_ONNX_IMPORT_INTEGERS_H
#define KEEL_OPS_EXCHANGE_ONNX_IMPORT_INTEGERS_H

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_rules.h"

namespace keel::onnx {

// Says where a quotient that is rounded down differs from one that is rounded towards 0, of the
// remainder that has the divisor's sign.
inline Value is_rounded_down(const Value& a, const Value& remainder) {
  return logical_and(not_equal(remainder, 0, {}),
                     not_equal(less(remainder, 0, {}), less(a, 0, {}), {}), {});
}

// The remainder that has the dividend's sign, as in C.
inline Value truncated_remainder(const Value& a, const Value& b) {
  if (a.dtype({}) == u8) return mod(a, b, {});
  if (is_float(a.dtype({}))) {
    const Value magnitude = mod(abs(a, {}), abs(b, {}), {});
    return select(less(a, 0, {}), neg(magnitude, {}), magnitude, {});
  }
  // The least integer has no magnitude.
  const Value remainder = mod(a, b, {});
  return select(is_rounded_down(a, remainder), sub(remainder, b, {}), remainder, {});
}

// The quotient of integers, rounded down.
inline Value floored_quotient(const Value& a, const Value& b) {
  const Value quotient = div(a, b, {});
  if (a.dtype({}) == u8) return quotient;
  return select(is_rounded_down(a, mod(a, b, {})), sub(quotient, 1, {}), quotient, {});
}

// Returns the integers from start up to limit, or down to it where the step is below 0; nothing
// where they are more than `most`. REQUIRES a step that is not 0.
template <class T>
std::optional<std::vector<T>> stepped_integers(T start, T limit, T step, uint64_t most) {
  static_assert(std::is_integral_v<T>);
  std::vector<T> numbers;
  if (step > 0 ? start >= limit : start <= limit) return numbers;
  // Their distance may be beyond T; that of any two fits into the unsigned 64 bits.
  const auto bits = [](T number) { return static_cast<uint64_t>(static_cast<int64_t>(number)); };
  const uint64_t distance = step > 0 ? bits(limit) - bits(start) : bits(start) - bits(limit);
  const uint64_t by = step > 0 ? bits(step) : -bits(step);
  const uint64_t count = distance / by + (distance % by != 0 ? 1 : 0);
  if (count > most) return std::nullopt;
  numbers.reserve(count);
  for (uint64_t i = 0; i < count; ++i)
    numbers.push_back(static_cast<T>(bits(start) + i * bits(step)));
  return numbers;
}

// Returns the number that an input holds. Throws RefusedNode for an integer that f64, in which
// attributes hold numbers, does not.
inline double exact_number(NodeContext& c, size_t input, const char* what) {
  const Tensor given = c.constant(input, what);
  const double number = c.number(input, what);
  if (!is_float(given.dtype()) &&
      !bit_equal(Tensor::full(given.dtype(), given.shape(), number), given))
    c.refuse(std::string(what) + " is no number that f64 holds exactly");
  return number;
}

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_IMPORT_INTEGERS_H
