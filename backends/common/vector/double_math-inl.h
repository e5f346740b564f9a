// Elementary functions on one vector of f64: exp and log in lanes, within 2 ULP on every target
// (series with closed coefficients); the others lane by lane through the C library. Included once
// per Highway target.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_DOUBLE_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_DOUBLE_MATH_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_DOUBLE_MATH_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_DOUBLE_MATH_INL_H
#endif

#include <cmath>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"

#include "keel/backends/common/vector/math-inl.h"
#include "keel/ops/scalar_rules.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
concept DoubleLanes = sizeof(hn::TFromD<D>) == sizeof(double);

// Added to a whole number of few bits, this leaves the number in the lowest bits.
constexpr double kWholeShift = 0x1.8p52;

// 2^n for whole n in [-1022, 1023].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V double_power_of_two(D d, V n) {
  const hn::RebindToSigned<D> di;
  const auto whole = hn::BitCast(di, n + hn::Set(d, kWholeShift));
  return hn::BitCast(d, hn::ShiftLeft<52>(whole + hn::Set(di, 1023)));
}

// v * 2^n for whole n in [-2000, 2000], rounded once where v is near 1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V double_scale_by_power(D d, V v, V n) {
#if HWY_TARGET == HWY_AVX3
  (void)d;
  return V{_mm512_scalef_pd(v.raw, n.raw)};
#else
  const V half = hn::Floor(n * hn::Set(d, 0.5));
  return v * double_power_of_two(d, half) * double_power_of_two(d, n - half);
#endif
}

// ln 2 in two parts, of which the first has 21 bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42p-1, kLn2Low = 0x1.fdf473de6af28p-22;

// exp without the care for NaN: x = n * ln 2 + r with |r| <= ln 2 / 2, and the Taylor series of
// e^r, whose first term left out is below 2^-58.
template <class D, class V = hn::Vec<D>>
requires DoubleLanes<D> HWY_INLINE V exp_clamped(D d, V x) {
  const V bounded = hn::Min(hn::Max(x, hn::Set(d, -746.0)), hn::Set(d, 710.0));
  const V n = hn::Round(bounded * hn::Set(d, 0x1.71547652b82fep+0));
  const V coarse = hn::NegMulAdd(n, hn::Set(d, kLn2High), bounded);
  const V r = hn::NegMulAdd(n, hn::Set(d, kLn2Low), coarse);
  const V higher =
      polynomial(d, r, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800);
  const V e = hn::MulAdd(higher, r * r, r) + hn::Set(d, 1.0);
  return double_scale_by_power(d, e, n);
}

template <class D, class V = hn::Vec<D>>
requires DoubleLanes<D> HWY_INLINE V exp(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, exp_clamped(d, x));
}

// log of a positive finite x in the normal range; the caller mends the rest. `scale` is added to
// the exponent. With x = 2^e (1 + f) and s = f / (2 + f), log(1 + f) = 2 atanh(s), whose series in
// s^2 <= 0.0295 is arranged so that f itself enters unrounded.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V double_log_normal(D d, V x, V scale) {
  const hn::RebindToSigned<D> di;
  // Splits at sqrt(1/2), so that arguments near 1 keep exponent 0.
  constexpr int64_t kRootHalf = 0x3fe6a09e667f3bcd;
  const auto offset = hn::BitCast(di, x) - hn::Set(di, kRootHalf);
  const auto exponent = hn::ShiftRight<52>(offset);
  const auto mantissa =
      hn::And(offset, hn::Set(di, (int64_t{1} << 52) - 1)) + hn::Set(di, kRootHalf);
  const V shift = hn::Set(d, kWholeShift);
  const V e = (hn::BitCast(d, exponent + hn::BitCast(di, shift)) - shift) + scale;
  const V f = hn::BitCast(d, mantissa) - hn::Set(d, 1.0);
  const V s = f / (f + hn::Set(d, 2.0));
  const V z = s * s;
  const V series = z * polynomial(d, z, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13,
                                  2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23);
  const V half_square = hn::Set(d, 0.5) * f * f;
  const V low = hn::MulAdd(e, hn::Set(d, kLn2Low), s * (half_square + series));
  return hn::MulAdd(e, hn::Set(d, kLn2High), f - (half_square - low));
}

template <class D, class V = hn::Vec<D>>
requires DoubleLanes<D> HWY_INLINE V log(D d, V x) {
  using Limits = std::numeric_limits<double>;
  const V infinity = hn::Set(d, Limits::infinity());
  const auto small = x < hn::Set(d, Limits::min());
  const V lifted = hn::IfThenElse(small, x * hn::Set(d, 0x1p54), x);
  const V scale = hn::IfThenElseZero(small, hn::Set(d, -54.0));
  V result = double_log_normal(d, lifted, scale);
  result = hn::IfThenElse(x == infinity, infinity, result);
  result = hn::IfThenElse(x == hn::Zero(d), hn::Neg(infinity), result);
  const auto invalid = hn::Or(x < hn::Zero(d), hn::IsNaN(x));
  return hn::IfThenElse(invalid, hn::Set(d, Limits::quiet_NaN()), result);
}

template <double (*kFunction)(double), class D, class V = hn::Vec<D>>
HWY_INLINE V double_by_lanes(D d, V x) {
  HWY_ALIGN double lanes[hn::MaxLanes(D())];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = kFunction(lanes[i]);
  return hn::Load(d, lanes);
}

// NOLINTBEGIN(bugprone-macro-parentheses): names of functions and types are no expressions.
#define KEEL_DOUBLE_BY_LANES(name, function) \
  template <class D, class V = hn::Vec<D>>   \
  requires DoubleLanes<D> HWY_INLINE V name(D d, V x) { return double_by_lanes<&function>(d, x); }
// NOLINTEND(bugprone-macro-parentheses)

KEEL_DOUBLE_BY_LANES(expm1, ::expm1)
KEEL_DOUBLE_BY_LANES(log1p, ::log1p)
KEEL_DOUBLE_BY_LANES(tanh, ::tanh)
KEEL_DOUBLE_BY_LANES(erf, ::erf)
KEEL_DOUBLE_BY_LANES(sin, ::sin)
KEEL_DOUBLE_BY_LANES(cos, ::cos)
KEEL_DOUBLE_BY_LANES(sigmoid, scalar::sigmoid)
KEEL_DOUBLE_BY_LANES(gelu, scalar::gelu)

#undef KEEL_DOUBLE_BY_LANES

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_DOUBLE_MATH_INL_H
