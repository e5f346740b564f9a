// Element-wise ops. Inputs broadcast as in NumPy: shapes are aligned at their last axes, and
// dimensions of 1 repeat. All inputs have one dtype (no promotion: mixed dtypes are an Error that
// names cast); a C++ number adopts the dtype of the values beside it. Corner cases (NaN, ties,
// integer wrap, division by zero) are listed in ops/README.md.
//
// Each function adds one node to the graph of the call (graph/ir/emit.h) and returns its value.
// Errors and printed graphs name `site`, or where that is not given the line that made the first
// operand.
#ifndef KEEL_OPS_ELEMENTWISE_H
#define KEEL_OPS_ELEMENTWISE_H

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct CastAttributes {
  DType dtype = f32;
  static void fields(auto&& visit) { visit("dtype", &CastAttributes::dtype); }
};

// ---- arithmetic: floats and integers; the result has the same dtype.
KEEL_API Value add(Operand a, Operand b, CallSite site = {});
KEEL_API Value sub(Operand a, Operand b, CallSite site = {});
KEEL_API Value mul(Operand a, Operand b, CallSite site = {});
// Integers truncate towards zero; x / 0 is 0 for integers.
KEEL_API Value div(Operand a, Operand b, CallSite site = {});
KEEL_API Value pow(Operand a, Operand b, CallSite site = {});
// NaN where either is NaN.
KEEL_API Value maximum(Operand a, Operand b, CallSite site = {});
KEEL_API Value minimum(Operand a, Operand b, CallSite site = {});
// Returns the remainder with the sign of b; 0 for integers by 0.
KEEL_API Value mod(Operand a, Operand b, CallSite site = {});

// The site is the left operand's.
KEEL_API Value operator+(Operand a, Operand b);
KEEL_API Value operator-(Operand a, Operand b);
KEEL_API Value operator*(Operand a, Operand b);
KEEL_API Value operator/(Operand a, Operand b);
KEEL_API Value operator-(Operand a);

// ---- functions of one number: floats and integers.
KEEL_API Value neg(Operand x, CallSite site = {});
KEEL_API Value abs(Operand x, CallSite site = {});
KEEL_API Value sign(Operand x, CallSite site = {});
KEEL_API Value square(Operand x, CallSite site = {});
KEEL_API Value relu(Operand x, CallSite site = {});

// ---- functions of one float.
KEEL_API Value exp(Operand x, CallSite site = {});
KEEL_API Value log(Operand x, CallSite site = {});
KEEL_API Value log1p(Operand x, CallSite site = {});
KEEL_API Value expm1(Operand x, CallSite site = {});
KEEL_API Value sqrt(Operand x, CallSite site = {});
KEEL_API Value rsqrt(Operand x, CallSite site = {});
KEEL_API Value reciprocal(Operand x, CallSite site = {});
KEEL_API Value tanh(Operand x, CallSite site = {});
KEEL_API Value sigmoid(Operand x, CallSite site = {});
// log(1 + exp(x)), without overflow: x for large x.
KEEL_API Value softplus(Operand x, CallSite site = {});
// x * Phi(x) with the exact normal distribution function (erf), not an approximation by tanh.
KEEL_API Value gelu(Operand x, CallSite site = {});
KEEL_API Value sin(Operand x, CallSite site = {});
KEEL_API Value cos(Operand x, CallSite site = {});
KEEL_API Value erf(Operand x, CallSite site = {});
// Their gradients are zero everywhere. round takes halves to the even neighbour.
KEEL_API Value floor(Operand x, CallSite site = {});
KEEL_API Value ceil(Operand x, CallSite site = {});
KEEL_API Value round(Operand x, CallSite site = {});

// minimum(maximum(x, low), high): `high` where low > high; NaN stays NaN.
KEEL_API Value clamp(Operand x, Operand low, Operand high, CallSite site = {});

// ---- comparisons: any dtype (equal, not_equal) or numbers; the result is bool. Comparisons with
// NaN are false, but for not_equal.
KEEL_API Value equal(Operand a, Operand b, CallSite site = {});
KEEL_API Value not_equal(Operand a, Operand b, CallSite site = {});
KEEL_API Value less(Operand a, Operand b, CallSite site = {});
KEEL_API Value less_equal(Operand a, Operand b, CallSite site = {});
KEEL_API Value greater(Operand a, Operand b, CallSite site = {});
KEEL_API Value greater_equal(Operand a, Operand b, CallSite site = {});

// ---- logic: bool only.
KEEL_API Value logical_and(Operand a, Operand b, CallSite site = {});
KEEL_API Value logical_or(Operand a, Operand b, CallSite site = {});
KEEL_API Value logical_xor(Operand a, Operand b, CallSite site = {});
KEEL_API Value logical_not(Operand x, CallSite site = {});

// ---- choice and conversion.
// a where predicate (bool) holds, else b; all three broadcast. The branch not taken gets a zero
// gradient.
KEEL_API Value select(Operand predicate, Operand a, Operand b, CallSite site = {});
// NumPy's name for select.
inline Value where(Operand predicate, Operand a, Operand b, CallSite site = {}) {
  return select(predicate, a, b, site);
}
// Returns each element converted: floats round to nearest even; float to integer truncates and
// saturates, NaN becomes 0; integers wrap; to bool is "not zero". No node where x has that dtype
// already.
KEEL_API Value cast(Operand x, DType dtype, CallSite site = {});
// x itself; no gradient flows through it.
KEEL_API Value stop_gradient(Operand x, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_ELEMENTWISE_H
