// Vector instructions: elementary functions of floats.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/float_math.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/double_math-inl.h"
#include "keel/backends/common/vector/float_loop-inl.h"
#include "keel/backends/common/vector/math-inl.h"
#include "keel/backends/common/vector/trig-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

#define KEEL_UNARY(Name, function)         \
  struct Name {                            \
    static constexpr int kSources = 1;     \
    template <class V>                     \
    HWY_INLINE V operator()(V a) const {   \
      return function(hn::DFromV<V>(), a); \
    }                                      \
  }

KEEL_UNARY(ExpOp, exp);
KEEL_UNARY(Expm1Op, expm1);
KEEL_UNARY(LogOp, log);
KEEL_UNARY(Log1pOp, log1p);
KEEL_UNARY(TanhOp, tanh);
KEEL_UNARY(SigmoidOp, sigmoid);
KEEL_UNARY(ErfOp, erf);
KEEL_UNARY(GeluOp, gelu);
KEEL_UNARY(SinOp, sin);
KEEL_UNARY(CosOp, cos);

#undef KEEL_UNARY

constexpr InstructionEntry kEntries[] = {
    KEEL_FLOAT_INSTRUCTION("exp", 12, ExpOp),   KEEL_FLOAT_INSTRUCTION("expm1", 14, Expm1Op),
    KEEL_FLOAT_INSTRUCTION("log", 12, LogOp),   KEEL_FLOAT_INSTRUCTION("log1p", 14, Log1pOp),
    KEEL_FLOAT_INSTRUCTION("tanh", 20, TanhOp), KEEL_FLOAT_INSTRUCTION("sigmoid", 16, SigmoidOp),
    KEEL_FLOAT_INSTRUCTION("erf", 30, ErfOp),   KEEL_FLOAT_INSTRUCTION("gelu", 36, GeluOp),
    KEEL_FLOAT_INSTRUCTION("sin", 30, SinOp),   KEEL_FLOAT_INSTRUCTION("cos", 30, CosOp),
};

}  // namespace

InstructionTable float_math_entries() { return {kEntries, sizeof(kEntries) / sizeof(kEntries[0])}; }

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {
HWY_EXPORT(float_math_entries);
InstructionTable float_math_table() { return HWY_DYNAMIC_DISPATCH(float_math_entries)(); }
}  // namespace keel::vector
#endif
