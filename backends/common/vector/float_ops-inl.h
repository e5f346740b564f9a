// Ops and comparisons of one vector of f32 or f64 lanes: the arithmetic that instructions and the
// steps of chains have in common, so that both give the same bits. Included once per Highway
// target.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_FLOAT_OPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_FLOAT_OPS_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_FLOAT_OPS_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_FLOAT_OPS_INL_H
#endif

#include "hwy/highway.h"

#include "keel/ops/scalar_rules.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Which operand the processor's maximum gives where they are equal, or one is NaN, follows from
// their order alone: taken both ways round, both are there. The bits of 0 and -0 together are those
// of 0 (and) or -0 (or); of a NaN and a number, or makes a NaN.
// Lanes that are emulated one by one (clang's scalar target) give the number beside a NaN instead.
template <class V>
HWY_INLINE V ordered_max(V a, V b) {
#if HWY_TARGET == HWY_SCALAR
  return V(scalar::maximum(a.raw, b.raw));
#elif HWY_TARGET == HWY_EMU128
  for (size_t i = 0; i < hn::MaxLanes(hn::DFromV<V>()); ++i)
    a.raw[i] = scalar::maximum(a.raw[i], b.raw[i]);
  return a;
#else
  const V first = hn::Max(a, b), second = hn::Max(b, a);
  const V either = hn::Or(first, second);
  return hn::IfThenElse(hn::IsNaN(either), either, hn::And(first, second));
#endif
}
template <class V>
HWY_INLINE V ordered_min(V a, V b) {
#if HWY_TARGET == HWY_SCALAR
  return V(scalar::minimum(a.raw, b.raw));
#elif HWY_TARGET == HWY_EMU128
  for (size_t i = 0; i < hn::MaxLanes(hn::DFromV<V>()); ++i)
    a.raw[i] = scalar::minimum(a.raw[i], b.raw[i]);
  return a;
#else
  return hn::Or(hn::Min(a, b), hn::Min(b, a));
#endif
}

template <class V>
HWY_INLINE V constant_like(V, double value) {
  using D = hn::DFromV<V>;
  return hn::Set(D(), static_cast<hn::TFromD<D>>(value));
}

template <class V>
HWY_INLINE V sign_of(V a) {
  const auto unchanged = hn::Or(a == constant_like(a, 0.0), hn::IsNaN(a));
  return hn::IfThenElse(unchanged, a, hn::CopySign(constant_like(a, 1.0), a));
}

#define KEEL_FLOAT_OP(Name, sources, parameters, expression) \
  struct Name {                                              \
    static constexpr int kSources = sources;                 \
    template <class V>                                       \
    HWY_INLINE V operator() parameters const {               \
      return expression;                                     \
    }                                                        \
  }

KEEL_FLOAT_OP(AddOp, 2, (V a, V b), a + b);
KEEL_FLOAT_OP(SubOp, 2, (V a, V b), a - b);
KEEL_FLOAT_OP(MulOp, 2, (V a, V b), hn::Mul(a, b));
KEEL_FLOAT_OP(DivOp, 2, (V a, V b), a / b);
KEEL_FLOAT_OP(MaximumOp, 2, (V a, V b), ordered_max(a, b));
KEEL_FLOAT_OP(MinimumOp, 2, (V a, V b), ordered_min(a, b));
KEEL_FLOAT_OP(NegOp, 1, (V a), hn::Neg(a));
KEEL_FLOAT_OP(AbsOp, 1, (V a), hn::Abs(a));
KEEL_FLOAT_OP(SignOp, 1, (V a), sign_of(a));
KEEL_FLOAT_OP(SquareOp, 1, (V a), hn::Mul(a, a));
KEEL_FLOAT_OP(SqrtOp, 1, (V a), hn::Sqrt(a));
KEEL_FLOAT_OP(RsqrtOp, 1, (V a), constant_like(a, 1.0) / hn::Sqrt(a));
KEEL_FLOAT_OP(ReciprocalOp, 1, (V a), constant_like(a, 1.0) / a);
// The sign is copied because some targets lose that of zero.
KEEL_FLOAT_OP(FloorOp, 1, (V a), hn::CopySign(hn::Floor(a), a));
KEEL_FLOAT_OP(CeilOp, 1, (V a), hn::CopySign(hn::Ceil(a), a));
KEEL_FLOAT_OP(RoundOp, 1, (V a), hn::CopySign(hn::Round(a), a));
KEEL_FLOAT_OP(ReluOp, 1, (V a), hn::IfThenZeroElse(a <= constant_like(a, 0.0), a));

#undef KEEL_FLOAT_OP

#define KEEL_COMPARISON(Name, expression)   \
  struct Name {                             \
    template <class V>                      \
    static HWY_INLINE auto test(V a, V b) { \
      return expression;                    \
    }                                       \
  }

KEEL_COMPARISON(EqualOp, a == b);
KEEL_COMPARISON(NotEqualOp, hn::Not(a == b));
KEEL_COMPARISON(LessOp, a < b);
KEEL_COMPARISON(LessEqualOp, a <= b);
KEEL_COMPARISON(GreaterOp, a > b);
KEEL_COMPARISON(GreaterEqualOp, a >= b);

#undef KEEL_COMPARISON

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_FLOAT_OPS_INL_H
