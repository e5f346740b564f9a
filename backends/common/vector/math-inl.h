// Elementary functions on one vector of f32: reductions of the argument and polynomials fitted for
// this file (minimax in the relative error, coefficients rounded to f32). Within 4 ULP on every
// target, gelu within 6 (5.5 near -0.1404 without fused multiply-add is the most of all x, 5.2 with
// it); the bits differ between targets. Included once per Highway target.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_MATH_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_MATH_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_MATH_INL_H
#endif

#include <cmath>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// c0 + x * (c1 + x * (c2 ...))
template <class D, class V = hn::Vec<D>>
HWY_INLINE V polynomial(D d, V, hn::TFromD<D> last) {
  return hn::Set(d, last);
}
template <class D, class V = hn::Vec<D>, class... C>
HWY_INLINE V polynomial(D d, V x, hn::TFromD<D> first, C... rest) {
  return hn::MulAdd(polynomial(d, x, rest...), x, hn::Set(d, first));
}

// 2^n for whole n in [-126, 127].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V power_of_two(D d, hn::Vec<hn::RebindToSigned<D>> n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(n + hn::Set(di, 127)));
}

// x = n * ln 2 + r with |r| <= ln 2 / 2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V reduce_by_ln2(D d, V x, V& n) {
  n = hn::Round(x * hn::Set(d, 1.44269504f));
  // The upper part of ln 2 has few bits, so that its product with n is exact.
  const V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  return hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
}

// v * 2^n for whole n in [-300, 300], rounded once.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V scale_by_power(D d, V v, V n) {
#if HWY_TARGET == HWY_AVX3
  (void)d;
  return V{_mm512_scalef_ps(v.raw, n.raw)};
#else
  const hn::RebindToSigned<D> di;
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  return v * power_of_two(d, half) * power_of_two(d, whole - half);
#endif
}

// e^r for |r| <= ln 2 / 2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_reduced(D d, V r) {
  const V higher =
      polynomial(d, r, 0.49999994f, 0.166665196f, 0.0416684262f, 0.00836883858f, 0.00138124847f);
  return hn::MulAdd(higher, r * r, r) + hn::Set(d, 1.0f);
}

// exp without the care for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_clamped(D d, V x) {
  const V bounded = hn::Min(hn::Max(x, hn::Set(d, -104.0f)), hn::Set(d, 89.0f));
  V n;
  const V r = reduce_by_ln2(d, bounded, n);
  return scale_by_power(d, exp_reduced(d, r), n);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, exp_clamped(d, x));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V expm1(D d, V x) {
  const V bounded = hn::Min(hn::Max(x, hn::Set(d, -20.0f)), hn::Set(d, 89.0f));
  V n;
  const V r = reduce_by_ln2(d, bounded, n);
  const V higher = polynomial(d, r, 0.5f, 0.166666657f, 0.0416663587f, 0.00833338406f,
                              0.00139408291f, 0.00019849051f);
  const V q = hn::MulAdd(higher, r * r, r);  // e^r - 1
  // 2^n (q + 1) - 1, doubled at the end: 2^128 has no f32.
  const hn::RebindToSigned<D> di;
  const V half_power = power_of_two(d, hn::ConvertTo(di, n) - hn::Set(di, 1));
  const V half = hn::MulAdd(q, half_power, half_power - hn::Set(d, 0.5f));
  const V result = half + half;
  const auto tiny = hn::Abs(x) < hn::Set(d, 0x1p-25f);
  return hn::IfThenElse(hn::Or(tiny, hn::IsNaN(x)), x, result);
}

// log of a positive finite x in the normal range; the caller mends the rest. `scale` is added to
// the exponent.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log_normal(D d, V x, V scale) {
  const hn::RebindToSigned<D> di;
  // Splits at sqrt(1/2), so that arguments near 1 keep exponent 0.
  constexpr int32_t kRootHalf = 0x3f3504f3;
  const auto offset = hn::BitCast(di, x) - hn::Set(di, kRootHalf);
  const auto exponent = hn::ShiftRight<23>(offset);
  const auto mantissa = hn::And(offset, hn::Set(di, 0x7fffff)) + hn::Set(di, kRootHalf);
  const V e = hn::ConvertTo(d, exponent) + scale;
  const V f = hn::BitCast(d, mantissa) - hn::Set(d, 1.0f);
  const V f2 = f * f;
  V higher = f2 * f *
             polynomial(d, f, 0.333333135f, -0.250000089f, 0.200021312f, -0.166680127f,
                        0.142193198f, -0.124052107f, 0.118893184f, -0.116779454f, 0.0674691796f);
  higher = hn::MulAdd(e, hn::Set(d, -2.12194440e-4f), higher);
  higher = hn::NegMulAdd(hn::Set(d, 0.5f), f2, higher);
  return hn::MulAdd(e, hn::Set(d, 0.693359375f), f + higher);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V log(D d, V x) {
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const auto small = x < hn::Set(d, std::numeric_limits<float>::min());
  const V lifted = hn::IfThenElse(small, x * hn::Set(d, 0x1p25f), x);
  const V scale = hn::IfThenElseZero(small, hn::Set(d, -25.0f));
  V result = log_normal(d, lifted, scale);
  result = hn::IfThenElse(x == infinity, infinity, result);
  result = hn::IfThenElse(x == hn::Zero(d), hn::Neg(infinity), result);
  const auto invalid = hn::Or(x < hn::Zero(d), hn::IsNaN(x));
  return hn::IfThenElse(invalid, hn::Set(d, std::numeric_limits<float>::quiet_NaN()), result);
}

// log(1 + x) = log(u) x / (u - 1) for u = 1 + x as rounded: the division undoes the rounding.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log1p(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V u = one + x;
  const V mended = log(d, u) * (x / (u - one));
  const V result = hn::IfThenElse(u == one, x, mended);
  return hn::IfThenElse(x == infinity, x, result);
}

// t / (t + 2) for t = e^(2|x|) - 1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  const V bounded = hn::Min(hn::Abs(x), hn::Set(d, 10.0f));
  const V t = expm1(d, bounded + bounded);
  const V result = hn::CopySign(t / (t + hn::Set(d, 2.0f)), x);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

// Uses e^-|x|, which neither overflows nor loses the small results of very negative x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = exp_clamped(d, hn::Neg(hn::Abs(x)));
  const V result = hn::IfThenElse(x < hn::Zero(d), e, one) / (one + e);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V erf(D d, V x) {
  const V t = hn::Min(hn::Abs(x), hn::Set(d, 4.0f));
  const V s = x * x;
  const V inner = hn::MulAdd(polynomial(d, s, 0.128379136f, -0.376124501f, 0.11281348f,
                                        -0.0267498251f, 0.00496885553f, -0.000586863607f),
                             x, x);
  // log of erfc(t)
  const V power = polynomial(d, t, 0.000177457303f, -1.12952828f, -0.633319914f, -0.108309872f,
                             0.0251387358f, -0.00417841878f, 0.000435986469f, -2.12274117e-05f);
  const V outer = hn::Set(d, 1.0f) - exp_clamped(d, power);
  const V result = hn::IfThenElse(hn::Abs(x) < hn::Set(d, 0.94f), inner, hn::CopySign(outer, x));
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

// Returns the part of x * x that its rounding to f32 loses.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V square_error(D d, V x, V square) {
#if HWY_TARGET <= HWY_AVX2
  (void)d;
  return hn::MulSub(x, x, square);
#else
  const hn::RebindToUnsigned<D> du;
  const V high = hn::BitCast(d, hn::And(hn::BitCast(du, x), hn::Set(du, 0xfffff000u)));
  const V low = x - high;
  const V twice = high * low + high * low;
  return ((high * high - square) + twice) + low * low;
#endif
}

// x * Phi(x) for the normal distribution function Phi, from Phi(-|x|), so that negative x keep
// their precision: Phi(-z) = e^(-z^2 / 2) p(q) / (z + 3) with q = (z - 3) / (z + 3).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu(D d, V x) {
  const V z = hn::Min(hn::Abs(x), hn::Set(d, 15.0f));
  const V three = hn::Set(d, 3.0f);
  const V sum = z + three;
  const V p = polynomial(d, (z - three) / sum, 0.729083717f, -0.50933218f, 0.230017692f,
                         -0.047258161f, -0.0104622385f, 0.00693735387f, 0.00101632124f,
                         -0.000946887827f, -0.000202896175f, 5.2459658e-05f);
  const V square = z * z;
  V n;
  const V minus_half = hn::Set(d, -0.5f);
  V r = reduce_by_ln2(d, square * minus_half, n);
  r = hn::MulAdd(square_error(d, z, square), minus_half, r);
  // Scaled last: the polynomial alone would already be subnormal where x times it is not.
  const V lower = scale_by_power(d, hn::CopySign(z, x) * (p / sum) * exp_reduced(d, r), n);
  const V upper = x - lower;
  // Zeros, too, so that -0 stays -0.
  const V result = hn::IfThenElse(x <= hn::Zero(d), lower, upper);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_MATH_INL_H
