// Floats of 16 bits are computed in f32: their sums would lose digits or overflow in their own
// dtype. Internal to ops.
#ifndef KEEL_OPS_WIDE_FLOATS_H
#define KEEL_OPS_WIDE_FLOATS_H

#include "keel/graph/ir/op_def.h"
#include "keel/ops/elementwise.h"

namespace keel {

// Returns f16 and bf16 as f32, and other dtypes as they are.
inline Value widened(const Value& value, CallSite site) {
  const bool narrow = value.dtype() == f16 || value.dtype() == bf16;
  return narrow ? cast(Operand(value, site), f32, site) : value;
}

// Returns the value in the dtype of the op's first input.
inline Value narrowed(const BuildContext& c, const Value& value) {
  return cast(Operand(value, c.site), c.inputs[0].dtype(), c.site);
}

}  // namespace keel

#endif  // KEEL_OPS_WIDE_FLOATS_H
