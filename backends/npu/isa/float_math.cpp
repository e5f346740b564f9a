// Vector instructions: elementary functions of floats.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/npu/isa/float_math.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/npu/isa/vector_driver-inl.h"
#include "keel/backends/npu/isa/vector_math-inl.h"
#include "keel/backends/npu/isa/vector_trig-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
namespace {

#define KEEL_UNARY(Name, function)                                      \
  struct Name : NoImmediate {                                           \
    using NoImmediate::NoImmediate;                                     \
    static constexpr int kSources = 1;                                  \
    HWY_INLINE Vf operator()(Vf a) const { return function(F32(), a); } \
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

constexpr InstructionRow kRows[] = {
    KEEL_FLOAT_INSTRUCTION("exp", ExpOp),   KEEL_FLOAT_INSTRUCTION("expm1", Expm1Op),
    KEEL_FLOAT_INSTRUCTION("log", LogOp),   KEEL_FLOAT_INSTRUCTION("log1p", Log1pOp),
    KEEL_FLOAT_INSTRUCTION("tanh", TanhOp), KEEL_FLOAT_INSTRUCTION("sigmoid", SigmoidOp),
    KEEL_FLOAT_INSTRUCTION("erf", ErfOp),   KEEL_FLOAT_INSTRUCTION("gelu", GeluOp),
    KEEL_FLOAT_INSTRUCTION("sin", SinOp),   KEEL_FLOAT_INSTRUCTION("cos", CosOp),
};

}  // namespace

InstructionTable float_math_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::npu {
HWY_EXPORT(float_math_rows);
InstructionTable float_math_table() { return HWY_DYNAMIC_DISPATCH(float_math_rows)(); }
}  // namespace keel::npu
#endif
