// Rules of type inference that several ops share: which dtypes an input may have, and the broadcast
// of all inputs. Pure functions; any thread.
#ifndef KEEL_OPS_INFER_RULES_H
#define KEEL_OPS_INFER_RULES_H

#include <string>

#include "keel/graph/ir/op_def.h"

namespace keel {

// Kinds of dtypes, as a set.
enum DTypeSet : unsigned {
  kFloats = 1,
  kIntegers = 2,
  kBools = 4,
  kNumbers = kFloats | kIntegers,
  kAnyDType = kNumbers | kBools,
};

constexpr bool contains(unsigned set, DType dtype) noexcept {
  return (is_float(dtype) && (set & kFloats) != 0) ||
         (is_integer(dtype) && (set & kIntegers) != 0) ||
         (dtype == DType::kBool && (set & kBools) != 0);
}

inline const char* describe_dtypes(unsigned set) {
  switch (set) {
    case kFloats:
      return "a float dtype";
    case kIntegers:
      return "an integer dtype";
    case kBools:
      return "bool";
    case kNumbers:
      return "a number dtype";
    default:
      return "any dtype but token";
  }
}

inline void require_dtypes(const InferContext& ctx, size_t input, unsigned set) {
  const DType dtype = ctx.inputs[input].dtype;
  if (contains(set, dtype)) return;
  ctx.fail(ctx.input_name(input), describe_dtypes(set), name_of(dtype),
           set == kBools ? "compare it first, for example not_equal(x, 0)"
                         : "convert it with cast(x, dtype)");
}

// Returns the broadcast shape of all inputs from `first` on.
inline Shape broadcast_inputs(const InferContext& ctx, size_t first = 0) {
  Shape shape = ctx.inputs[first].shape;
  for (size_t i = first + 1; i < ctx.inputs.size(); ++i) {
    const auto both = broadcast(shape, ctx.inputs[i].shape);
    if (!both) {
      ctx.fail(ctx.input_name(i), "a shape that broadcasts with " + to_string(shape),
               to_string(ctx.inputs[i].shape),
               "trailing dimensions must be equal or 1; reshape or expand_dims one side");
    }
    shape = *both;
  }
  return shape;
}

}  // namespace keel

#endif  // KEEL_OPS_INFER_RULES_H
