// Vector instructions: comparisons of floats.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/float_compare.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/float_loop-inl.h"
#include "keel/backends/common/vector/float_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

constexpr InstructionEntry kEntries[] = {
    KEEL_FLOAT_TEST("equal", EqualOp),     KEEL_FLOAT_TEST("not_equal", NotEqualOp),
    KEEL_FLOAT_TEST("less", LessOp),       KEEL_FLOAT_TEST("less_equal", LessEqualOp),
    KEEL_FLOAT_TEST("greater", GreaterOp), KEEL_FLOAT_TEST("greater_equal", GreaterEqualOp),
};

}  // namespace

InstructionTable float_compare_entries() {
  return {kEntries, sizeof(kEntries) / sizeof(kEntries[0])};
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {
HWY_EXPORT(float_compare_entries);
InstructionTable float_compare_table() { return HWY_DYNAMIC_DISPATCH(float_compare_entries)(); }
}  // namespace keel::vector
#endif
