// Scales and zero points of quantized numbers, for the rules that have them: one number each, or
// one for each part of a value along an axis. The functions add nodes to the graph of their values.
#ifndef KEEL_OPS_EXCHANGE_ONNX_IMPORT_QUANTIZED_H
#define KEEL_OPS_EXCHANGE_ONNX_IMPORT_QUANTIZED_H

#include <cstddef>
#include <limits>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"

namespace keel::onnx {

// An axis that no value has: there is one number for the whole of it.
inline constexpr size_t kOneNumber = std::numeric_limits<size_t>::max();

// Return the axis of a product's operand along which its numbers may differ. A vector has none: its
// axis is summed over.
inline size_t axis_of_rows(const Value& x) {
  const size_t rank = x.shape({}).rank();
  return rank < 2 ? kOneNumber : rank - 2;
}
inline size_t axis_of_columns(const Value& x) {
  const size_t rank = x.shape({}).rank();
  return rank < 2 ? kOneNumber : rank - 1;
}

// Returns an input that is one number, or one for each part of x along `axis`, beside x. `what`
// begins what a refusal says of it.
inline Value beside(NodeContext& c, size_t input, const Value& x, size_t axis, const char* what) {
  const Value numbers = c.in(input, StateUse::kKept);
  const Shape& own = numbers.shape({});
  if (own.rank() == 0) return numbers;
  const size_t rank = x.shape({}).rank();
  // A length that is not known has to be 1 at the run where there is no axis for more.
  const bool one = own.rank() == 1 && (own[0] == 1 || (own[0] < 0 && axis >= rank));
  if (one) return reshape(numbers, Shape{}, {});
  if (axis >= rank) c.require_shape(numbers, Shape{}, what);
  if (own.rank() == 1) {
    c.require_shape(numbers, {x.shape({})[axis]}, what);
    return along_axis(numbers, axis, rank);
  }
  c.require_broadcast(numbers, x.shape({}), what);
  return numbers;
}

// Returns x as i32 less its zero point, where it has one.
inline Value less_zero_point(NodeContext& c, const Value& x, size_t zero_point, size_t axis) {
  const Value whole = cast(x, i32, {});
  if (!c.has(zero_point)) return whole;
  return sub(whole, cast(beside(c, zero_point, x, axis, "its zero point is"), i32, {}), {});
}

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_IMPORT_QUANTIZED_H
