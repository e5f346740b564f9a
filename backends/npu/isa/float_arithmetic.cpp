// Vector instructions: arithmetic and rounding of floats, exact or correctly rounded (mod and pow
// by the C library).
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/npu/isa/float_arithmetic.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/npu/isa/vector_driver-inl.h"
#include "keel/ops/scalar_rules.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
namespace {

// Which operand the processor's maximum gives where they are equal, or one is NaN, follows from
// their order alone: taken both ways round, both are there. The bits of 0 and -0 together are those
// of 0 (and) or -0 (or); of a NaN and a number, or makes a NaN.
HWY_INLINE Vf ordered_max(Vf a, Vf b) {
#if HWY_TARGET == HWY_SCALAR
  return Vf(scalar::maximum(a.raw, b.raw));
#else
  const Vf first = hn::Max(a, b), second = hn::Max(b, a);
  const Vf either = hn::Or(first, second);
  return hn::IfThenElse(hn::IsNaN(either), either, hn::And(first, second));
#endif
}
HWY_INLINE Vf ordered_min(Vf a, Vf b) {
#if HWY_TARGET == HWY_SCALAR
  return Vf(scalar::minimum(a.raw, b.raw));
#else
  return hn::Or(hn::Min(a, b), hn::Min(b, a));
#endif
}

struct AddOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 2;
  HWY_INLINE Vf operator()(Vf a, Vf b) const { return a + b; }
};
struct SubOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 2;
  HWY_INLINE Vf operator()(Vf a, Vf b) const { return a - b; }
};
struct MulOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 2;
  HWY_INLINE Vf operator()(Vf a, Vf b) const { return a * b; }
};
struct DivOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 2;
  HWY_INLINE Vf operator()(Vf a, Vf b) const { return a / b; }
};
struct MaximumOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 2;
  HWY_INLINE Vf operator()(Vf a, Vf b) const { return ordered_max(a, b); }
};
struct MinimumOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 2;
  HWY_INLINE Vf operator()(Vf a, Vf b) const { return ordered_min(a, b); }
};

// Lane by lane through a function of the C library.
template <float (*kFunction)(float, float)>
struct LaneOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 2;
  HWY_INLINE Vf operator()(Vf a, Vf b) const {
    const F32 d;
    HWY_ALIGN float left[hn::MaxLanes(F32())];
    HWY_ALIGN float right[hn::MaxLanes(F32())];
    hn::Store(a, d, left);
    hn::Store(b, d, right);
    for (size_t i = 0; i < hn::Lanes(d); ++i) left[i] = kFunction(left[i], right[i]);
    return hn::Load(d, left);
  }
};

float mod_with_divisors_sign(float a, float b) {
  const float rest = std::fmod(a, b);
  if (rest == 0.0f) return std::copysign(rest, b);
  return (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
float power(float a, float b) { return scalar::pow(a, b); }

struct NegOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 1;
  HWY_INLINE Vf operator()(Vf a) const { return hn::Neg(a); }
};
struct AbsOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 1;
  HWY_INLINE Vf operator()(Vf a) const { return hn::Abs(a); }
};
struct SignOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 1;
  HWY_INLINE Vf operator()(Vf a) const {
    const F32 d;
    const auto unchanged = hn::Or(a == hn::Zero(d), hn::IsNaN(a));
    return hn::IfThenElse(unchanged, a, hn::CopySign(hn::Set(d, 1.0f), a));
  }
};
struct SquareOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 1;
  HWY_INLINE Vf operator()(Vf a) const { return a * a; }
};
struct SqrtOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 1;
  HWY_INLINE Vf operator()(Vf a) const { return hn::Sqrt(a); }
};
struct RsqrtOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 1;
  HWY_INLINE Vf operator()(Vf a) const { return hn::Set(F32(), 1.0f) / hn::Sqrt(a); }
};
struct ReciprocalOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 1;
  HWY_INLINE Vf operator()(Vf a) const { return hn::Set(F32(), 1.0f) / a; }
};
// The sign is copied because some targets lose that of zero.
struct FloorOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 1;
  HWY_INLINE Vf operator()(Vf a) const { return hn::CopySign(hn::Floor(a), a); }
};
struct CeilOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 1;
  HWY_INLINE Vf operator()(Vf a) const { return hn::CopySign(hn::Ceil(a), a); }
};
struct RoundOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 1;
  HWY_INLINE Vf operator()(Vf a) const { return hn::CopySign(hn::Round(a), a); }
};
struct ReluOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 1;
  HWY_INLINE Vf operator()(Vf a) const { return hn::IfThenZeroElse(a <= hn::Zero(F32()), a); }
};

struct ClampOp {
  static constexpr int kSources = 1;
  explicit ClampOp(const VectorCall& call)
      : low(static_cast<float>(call.imm[0])), high(static_cast<float>(call.imm[1])) {}
  HWY_INLINE Vf operator()(Vf a) const {
    const Vf lower = hn::Set(F32(), low), upper = hn::Set(F32(), high);
    const Vf raised = hn::IfThenElse(a < lower, lower, a);
    return hn::IfThenElse(raised > upper, upper, raised);
  }
  float low, high;
};

// Both steps rounded, as the two instructions would.
struct MulAddOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 3;
  HWY_INLINE Vf operator()(Vf a, Vf b, Vf c) const { return a * b + c; }
};
struct MulSubOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 3;
  HWY_INLINE Vf operator()(Vf a, Vf b, Vf c) const { return a * b - c; }
};
struct SubMulOp : NoImmediate {
  using NoImmediate::NoImmediate;
  static constexpr int kSources = 3;
  HWY_INLINE Vf operator()(Vf a, Vf b, Vf c) const { return c - a * b; }
};

constexpr InstructionRow kRows[] = {
    KEEL_FLOAT_INSTRUCTION("add", AddOp),
    KEEL_FLOAT_INSTRUCTION("sub", SubOp),
    KEEL_FLOAT_INSTRUCTION("mul", MulOp),
    KEEL_FLOAT_INSTRUCTION("div", DivOp),
    KEEL_FLOAT_INSTRUCTION("mod", LaneOp<&mod_with_divisors_sign>),
    KEEL_FLOAT_INSTRUCTION("pow", LaneOp<&power>),
    KEEL_FLOAT_INSTRUCTION("maximum", MaximumOp),
    KEEL_FLOAT_INSTRUCTION("minimum", MinimumOp),
    KEEL_FLOAT_INSTRUCTION("neg", NegOp),
    KEEL_FLOAT_INSTRUCTION("abs", AbsOp),
    KEEL_FLOAT_INSTRUCTION("sign", SignOp),
    KEEL_FLOAT_INSTRUCTION("square", SquareOp),
    KEEL_FLOAT_INSTRUCTION("sqrt", SqrtOp),
    KEEL_FLOAT_INSTRUCTION("rsqrt", RsqrtOp),
    KEEL_FLOAT_INSTRUCTION("reciprocal", ReciprocalOp),
    KEEL_FLOAT_INSTRUCTION("floor", FloorOp),
    KEEL_FLOAT_INSTRUCTION("ceil", CeilOp),
    KEEL_FLOAT_INSTRUCTION("round", RoundOp),
    KEEL_FLOAT_INSTRUCTION("relu", ReluOp),
    KEEL_FLOAT_INSTRUCTION("clamp", ClampOp),
    {"mul_add", f32, f32, false, &run_f32<MulAddOp>},
    {"mul_sub", f32, f32, false, &run_f32<MulSubOp>},
    {"sub_mul", f32, f32, false, &run_f32<SubMulOp>},
};

}  // namespace

InstructionTable float_arithmetic_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::npu {
HWY_EXPORT(float_arithmetic_rows);
InstructionTable float_arithmetic_table() { return HWY_DYNAMIC_DISPATCH(float_arithmetic_rows)(); }
}  // namespace keel::npu
#endif
