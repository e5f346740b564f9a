// Vector instructions: bools, selection between two sources, and copies.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/logic.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/element_loop-inl.h"
#include "keel/backends/common/vector/instruction_table.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

struct LogicalAnd {
  static HWY_INLINE bool of(bool a, bool b) { return a && b; }
};
struct LogicalOr {
  static HWY_INLINE bool of(bool a, bool b) { return a || b; }
};
struct LogicalXor {
  static HWY_INLINE bool of(bool a, bool b) { return a != b; }
};
struct LogicalEqual {
  static HWY_INLINE bool of(bool a, bool b) { return a == b; }
};

template <class Op>
void bool_binary(const VectorCall& call) {
  run_binary<uint8_t, uint8_t>(call, [](uint8_t a, uint8_t b) HWY_ATTR {
    return static_cast<uint8_t>(Op::of(a != 0, b != 0));
  });
}

void bool_not(const VectorCall& call) {
  run_unary<uint8_t, uint8_t>(call,
                              [](uint8_t a) HWY_ATTR { return static_cast<uint8_t>(a == 0); });
}

// Selection moves bits: one loop per element size.
template <class T, bool kA, bool kB>
HWY_INLINE void select_loop(const VectorCall& call) {
  const Elements<T, kA> a(call, 1);
  const Elements<T, kB> b(call, 2);
  const auto* mask = static_cast<const uint8_t*>(call.src[0]);
  auto* dst = static_cast<T*>(call.dst);
  const size_t n = call.n;
  KEEL_INDEPENDENT_TURNS
  for (size_t i = 0; i < n; ++i) {
    const T left = a[i], right = b[i];
    dst[i] = mask[i] != 0 ? left : right;
  }
}

template <class T>
void copy(const VectorCall& call) {
  run_unary<T, T>(call, [](T a) HWY_ATTR { return a; });
}

template <class T>
void select(const VectorCall& call) {
  if (call.scalar[0]) {
    if (call.n == 0) return;
    const int chosen = *static_cast<const uint8_t*>(call.src[0]) != 0 ? 1 : 2;
    VectorCall whole = call;
    whole.src[0] = call.src[chosen];
    whole.scalar[0] = call.scalar[chosen];
    return copy<T>(whole);
  }
  if (call.scalar[1]) {
    call.scalar[2] ? select_loop<T, true, true>(call) : select_loop<T, true, false>(call);
  } else {
    call.scalar[2] ? select_loop<T, false, true>(call) : select_loop<T, false, false>(call);
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): names of functions and types are no expressions.
#define KEEL_BY_SIZE(name, passes, function)                  \
  {name, passes, f32, f32, false, &function<uint32_t>},       \
      {name, passes, i32, i32, false, &function<uint32_t>},   \
      {name, passes, f16, f16, false, &function<uint16_t>},   \
      {name, passes, bf16, bf16, false, &function<uint16_t>}, \
      {name, passes, f64, f64, false, &function<uint64_t>},   \
      {name, passes, i64, i64, false, &function<uint64_t>},   \
      {name, passes, u8, u8, false, &function<uint8_t>}, {    \
    name, passes, boolean, boolean, false, &function<uint8_t> \
  }
// NOLINTEND(bugprone-macro-parentheses)

constexpr InstructionEntry kEntries[] = {
    {"logical_and", 1, boolean, boolean, false, &bool_binary<LogicalAnd>},
    {"logical_or", 1, boolean, boolean, false, &bool_binary<LogicalOr>},
    {"logical_xor", 1, boolean, boolean, false, &bool_binary<LogicalXor>},
    {"logical_not", 1, boolean, boolean, false, &bool_not},
    {"equal", 2, boolean, boolean, false, &bool_binary<LogicalEqual>},
    {"not_equal", 2, boolean, boolean, false, &bool_binary<LogicalXor>},
    {"maximum", 1, boolean, boolean, false, &bool_binary<LogicalOr>},
    {"minimum", 1, boolean, boolean, false, &bool_binary<LogicalAnd>},
    KEEL_BY_SIZE("select", 2, select),
    KEEL_BY_SIZE("copy", 1, copy),
};

}  // namespace

InstructionTable logic_entries() { return {kEntries, sizeof(kEntries) / sizeof(kEntries[0])}; }

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {
HWY_EXPORT(logic_entries);
InstructionTable logic_table() { return HWY_DYNAMIC_DISPATCH(logic_entries)(); }
}  // namespace keel::vector
#endif
