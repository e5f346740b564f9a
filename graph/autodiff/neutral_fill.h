// Values that hold one number everywhere, and the number that stacks of rows (row_stack.h) begin
// with. Pure functions; any thread. Internal to Keel.
#ifndef KEEL_GRAPH_AUTODIFF_NEUTRAL_FILL_H
#define KEEL_GRAPH_AUTODIFF_NEUTRAL_FILL_H

#include <cmath>
#include <optional>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/views.h"

namespace keel {

// Returns the number that a value repeats: one element of a constant under views and broadcasts.
// Nothing for other values.
inline std::optional<double> filling_number(Value v) {
  v = root_of(v);
  while (v.node().has(kBroadcast)) v = root_of(v.node().input(0));
  if (!v.node().is(OpRole::kConstant)) return std::nullopt;
  const Tensor& value = v.node().as<ConstantAttributes>().value;
  if (value.num_elements() != 1) return std::nullopt;
  return value.at(0);
}

// Returns what keeps every bit of a number that is added to it: 0, and for floats -0, as 0 + -0 is
// 0.
inline double neutral_number(DType dtype) { return is_float(dtype) ? -0.0 : 0.0; }

// Returns whether adding a value to this one is the same as writing it, to the last bit.
inline bool is_filled_with_neutral(const Value& v) {
  const std::optional<double> number = filling_number(v);
  return number && *number == 0 && std::signbit(*number) == is_float(v.dtype());
}

}  // namespace keel

#endif  // KEEL_GRAPH_AUTODIFF_NEUTRAL_FILL_H
