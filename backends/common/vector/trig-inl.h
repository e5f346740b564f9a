// Sine and cosine of one vector of f32. The argument is reduced in double, which is exact enough up
// to 2^31; lanes beyond that are left to the C library, one by one. Included once per Highway
// target.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_TRIG_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_TRIG_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_TRIG_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_TRIG_INL_H
#endif

#include <cmath>

#include "hwy/highway.h"

#include "keel/backends/common/vector/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x = n * pi/2 + r. The first two parts of pi/2 have so few bits that their products with n are
// exact.
template <class DD, class VD = hn::Vec<DD>>
HWY_INLINE VD reduce_by_half_pi(DD dd, VD x, VD& n) {
  n = hn::Round(x * hn::Set(dd, 0.63661977236758134308));
  VD r = x - n * hn::Set(dd, 0x1.921fbp+0);
  r = r - n * hn::Set(dd, 0x1.5110bp-22);
  return r - n * hn::Set(dd, 0x1.18469898cc517p-44);
}

template <class D>
using Vi = hn::Vec<hn::RebindToSigned<D>>;

// Returns the remainder and the quadrant of each lane. REQUIRES |x| <= 2^31.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V quadrant_of(D d, V x, Vi<D>& quadrant) {
  const hn::RebindToSigned<D> di;
#if HWY_TARGET == HWY_SCALAR
  const hn::ScalableTag<double> dd;
  const hn::ScalableTag<int64_t> dl;
  auto n = hn::Zero(dd);
  const auto r = reduce_by_half_pi(dd, hn::Set(dd, static_cast<double>(hn::GetLane(x))), n);
  const int64_t whole = hn::GetLane(hn::ConvertTo(dl, n));
  quadrant = hn::Set(di, static_cast<int32_t>(whole & 3));
  return hn::Set(d, static_cast<float>(hn::GetLane(r)));
#else
  const hn::Half<D> dh;
  const hn::Half<decltype(di)> dih;
  const hn::Rebind<double, decltype(dh)> dd;
  auto n_low = hn::Zero(dd), n_high = hn::Zero(dd);
  const auto low = reduce_by_half_pi(dd, hn::PromoteTo(dd, hn::LowerHalf(dh, x)), n_low);
  const auto high = reduce_by_half_pi(dd, hn::PromoteTo(dd, hn::UpperHalf(dh, x)), n_high);
  quadrant = hn::Combine(di, hn::DemoteTo(dih, n_high), hn::DemoteTo(dih, n_low));
  return hn::Combine(d, hn::DemoteTo(dh, high), hn::DemoteTo(dh, low));
#endif
}

// sin(x) for shift 0, cos(x) for shift 1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sine_shifted(D d, V x, int32_t shift) {
  const hn::RebindToSigned<D> di;
  const auto far = hn::Not(hn::Abs(x) <= hn::Set(d, 0x1p31f));
  const V near = hn::IfThenZeroElse(far, x);
  Vi<D> quadrant = hn::Zero(di);
  const V r = quadrant_of(d, near, quadrant);
  quadrant = quadrant + hn::Set(di, shift);
  const V s = r * r;
  const V sine = hn::MulAdd(
      polynomial(d, s, -0.166666672f, 0.00833332911f, -0.000198393085f, 2.71807471e-06f), s * r, r);
  const V cosine =
      hn::MulAdd(polynomial(d, s, 0.0416666679f, -0.00138888834f, 2.4799454e-05f, -2.72052603e-07f),
                 s * s, hn::NegMulAdd(hn::Set(d, 0.5f), s, hn::Set(d, 1.0f)));
  const auto odd = (hn::And(quadrant, hn::Set(di, 1))) == hn::Set(di, 1);
  const auto sign = hn::ShiftLeft<30>(hn::And(quadrant, hn::Set(di, 2)));
  const V result =
      hn::Xor(hn::IfThenElse(hn::RebindMask(d, odd), cosine, sine), hn::BitCast(d, sign));
  if (hn::AllFalse(d, far)) return result;
  HWY_ALIGN float in[hn::MaxLanes(D())];
  HWY_ALIGN float out[hn::MaxLanes(D())];
  hn::Store(x, d, in);
  hn::Store(result, d, out);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (std::fabs(in[i]) <= 0x1p31f) continue;
    const double wide = static_cast<double>(in[i]);
    out[i] = static_cast<float>(shift == 0 ? std::sin(wide) : std::cos(wide));
  }
  return hn::Load(d, out);
}

// -0 keeps its sign through the reduction only if it is left alone.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sin(D d, V x) {
  return hn::IfThenElse(x == hn::Zero(d), x, sine_shifted(d, x, 0));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V cos(D d, V x) {
  return sine_shifted(d, x, 1);
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_TRIG_INL_H
