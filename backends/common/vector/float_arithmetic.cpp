// Vector instructions: arithmetic and rounding of floats, exact or correctly rounded (mod and pow
// by the C library).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/float_arithmetic.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/float_loop-inl.h"
#include "keel/ops/scalar_rules.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

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

// Lane by lane through a function of the C library.
template <class F, class V>
HWY_INLINE V by_lanes(V a, V b) {
  using D = hn::DFromV<V>;
  using T = hn::TFromD<D>;
  const D d;
  HWY_ALIGN T left[hn::MaxLanes(D())];
  HWY_ALIGN T right[hn::MaxLanes(D())];
  hn::Store(a, d, left);
  hn::Store(b, d, right);
  for (size_t i = 0; i < hn::Lanes(d); ++i) left[i] = F::of(left[i], right[i]);
  return hn::Load(d, left);
}

struct ModWithDivisorsSign {
  template <class T>
  static T of(T a, T b) {
    return scalar::mod(a, b);
  }
};
struct Power {
  template <class T>
  static T of(T a, T b) {
    return scalar::pow(a, b);
  }
};

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
KEEL_FLOAT_OP(ModOp, 2, (V a, V b), by_lanes<ModWithDivisorsSign>(a, b));
KEEL_FLOAT_OP(PowOp, 2, (V a, V b), by_lanes<Power>(a, b));
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
// Both steps are rounded, as the two instructions would.
KEEL_FLOAT_OP(MulAddOp, 3, (V a, V b, V c), hn::Mul(a, b) + c);
KEEL_FLOAT_OP(MulSubOp, 3, (V a, V b, V c), hn::Mul(a, b) - c);
KEEL_FLOAT_OP(SubMulOp, 3, (V a, V b, V c), c - hn::Mul(a, b));
KEEL_FLOAT_OP(SubSubOp, 3, (V a, V b, V c), hn::Sub(hn::Sub(a, b), c));

#undef KEEL_FLOAT_OP

constexpr InstructionEntry kEntries[] = {
    KEEL_FLOAT_INSTRUCTION("add", 1, AddOp),
    KEEL_FLOAT_INSTRUCTION("sub", 1, SubOp),
    KEEL_FLOAT_INSTRUCTION("mul", 1, MulOp),
    KEEL_FLOAT_INSTRUCTION("div", 4, DivOp),
    KEEL_FLOAT_INSTRUCTION("mod", 8, ModOp),
    KEEL_FLOAT_INSTRUCTION("pow", 30, PowOp),
    KEEL_FLOAT_INSTRUCTION("maximum", 1, MaximumOp),
    KEEL_FLOAT_INSTRUCTION("minimum", 1, MinimumOp),
    KEEL_FLOAT_INSTRUCTION("neg", 1, NegOp),
    KEEL_FLOAT_INSTRUCTION("abs", 1, AbsOp),
    KEEL_FLOAT_INSTRUCTION("sign", 4, SignOp),
    KEEL_FLOAT_INSTRUCTION("square", 1, SquareOp),
    KEEL_FLOAT_INSTRUCTION("sqrt", 4, SqrtOp),
    KEEL_FLOAT_INSTRUCTION("rsqrt", 4, RsqrtOp),
    KEEL_FLOAT_INSTRUCTION("reciprocal", 4, ReciprocalOp),
    KEEL_FLOAT_INSTRUCTION("floor", 2, FloorOp),
    KEEL_FLOAT_INSTRUCTION("ceil", 2, CeilOp),
    KEEL_FLOAT_INSTRUCTION("round", 2, RoundOp),
    KEEL_FLOAT_INSTRUCTION("relu", 1, ReluOp),
    {"mul_add", 2, f64, f64, false, &run_lanes<double, MulAddOp>},
    {"mul_add", 2, f32, f32, false, &run_lanes<float, MulAddOp>},
    {"mul_sub", 2, f64, f64, false, &run_lanes<double, MulSubOp>},
    {"mul_sub", 2, f32, f32, false, &run_lanes<float, MulSubOp>},
    {"sub_mul", 2, f64, f64, false, &run_lanes<double, SubMulOp>},
    {"sub_mul", 2, f32, f32, false, &run_lanes<float, SubMulOp>},
    {"sub_sub", 2, f64, f64, false, &run_lanes<double, SubSubOp>},
    {"sub_sub", 2, f32, f32, false, &run_lanes<float, SubSubOp>},
};

}  // namespace

InstructionTable float_arithmetic_entries() {
  return {kEntries, sizeof(kEntries) / sizeof(kEntries[0])};
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {
HWY_EXPORT(float_arithmetic_entries);
InstructionTable float_arithmetic_table() {
  return HWY_DYNAMIC_DISPATCH(float_arithmetic_entries)();
}
}  // namespace keel::vector
#endif
