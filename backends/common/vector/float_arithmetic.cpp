// Vector instructions: arithmetic and rounding of floats, exact or correctly rounded (mod and pow
// by the C library).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/float_arithmetic.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/float_loop-inl.h"
#include "keel/backends/common/vector/float_ops-inl.h"
#include "keel/ops/scalar_rules.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

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

struct ModOp {
  static constexpr int kSources = 2;
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return by_lanes<ModWithDivisorsSign>(a, b);
  }
};
struct PowOp {
  static constexpr int kSources = 2;
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return by_lanes<Power>(a, b);
  }
};

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
