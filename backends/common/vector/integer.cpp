// Vector instructions: arithmetic and comparisons of i64, i32 and u8.
#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/integer.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/element_loop-inl.h"
#include "keel/backends/common/vector/instruction_table.h"
#include "keel/ops/scalar_rules.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

// Each operation is a type with a static function, so that the loop is compiled around its body.
#define KEEL_INTEGER_UNARY(Name, expression) \
  struct Name {                              \
    template <class T>                       \
    static HWY_INLINE T of(T a) {            \
      return static_cast<T>(expression);     \
    }                                        \
  }
#define KEEL_INTEGER_BINARY(Name, expression) \
  struct Name {                               \
    template <class T>                        \
    static HWY_INLINE T of(T a, T b) {        \
      return static_cast<T>(expression);      \
    }                                         \
  }
#define KEEL_INTEGER_TEST(Name, expression)    \
  struct Name {                                \
    template <class T>                         \
    static HWY_INLINE uint8_t of(T a, T b) {   \
      return static_cast<uint8_t>(expression); \
    }                                          \
  }

KEEL_INTEGER_UNARY(Neg, scalar::neg(a));
KEEL_INTEGER_UNARY(Abs, scalar::abs(a));
KEEL_INTEGER_UNARY(Sign, scalar::sign(a));
KEEL_INTEGER_UNARY(Square, scalar::mul(a, a));
KEEL_INTEGER_UNARY(Relu, scalar::relu(a));
KEEL_INTEGER_UNARY(Whole, a);

KEEL_INTEGER_BINARY(Add, scalar::add(a, b));
KEEL_INTEGER_BINARY(Sub, scalar::sub(a, b));
KEEL_INTEGER_BINARY(Mul, scalar::mul(a, b));
KEEL_INTEGER_BINARY(Div, scalar::div(a, b));
KEEL_INTEGER_BINARY(Mod, scalar::mod(a, b));
KEEL_INTEGER_BINARY(Pow, scalar::pow(a, b));
KEEL_INTEGER_BINARY(Maximum, scalar::maximum(a, b));
KEEL_INTEGER_BINARY(Minimum, scalar::minimum(a, b));

KEEL_INTEGER_TEST(Equal, a == b);
KEEL_INTEGER_TEST(NotEqual, a != b);
KEEL_INTEGER_TEST(Less, a < b);
KEEL_INTEGER_TEST(LessEqual, a <= b);
KEEL_INTEGER_TEST(Greater, a > b);
KEEL_INTEGER_TEST(GreaterEqual, a >= b);

#undef KEEL_INTEGER_UNARY
#undef KEEL_INTEGER_BINARY
#undef KEEL_INTEGER_TEST

template <class T, class Op>
void unary(const VectorCall& call) {
  run_unary<T, T>(call, [](T a) HWY_ATTR { return Op::of(a); });
}
template <class T, class Op>
void binary(const VectorCall& call) {
  run_binary<T, T>(call, [](T a, T b) HWY_ATTR { return Op::of(a, b); });
}
template <class T, class Op>
void test(const VectorCall& call) {
  run_binary<T, uint8_t>(call, [](T a, T b) HWY_ATTR { return Op::of(a, b); });
}

// NOLINTBEGIN(bugprone-macro-parentheses): names of functions and types are no expressions.
#define KEEL_INTEGERS(kind, name, passes, Op)                \
  {name, passes, i64, i64, false, &kind<int64_t, Op>},       \
      {name, passes, i32, i32, false, &kind<int32_t, Op>}, { \
    name, passes, u8, u8, false, &kind<uint8_t, Op>          \
  }
#define KEEL_INTEGER_TESTS(name, Op)                        \
  {name, 2, i64, boolean, false, &test<int64_t, Op>},       \
      {name, 2, i32, boolean, false, &test<int32_t, Op>}, { \
    name, 2, u8, boolean, false, &test<uint8_t, Op>         \
  }
// NOLINTEND(bugprone-macro-parentheses)

constexpr InstructionEntry kEntries[] = {
    KEEL_INTEGERS(binary, "add", 1, Add),
    KEEL_INTEGERS(binary, "sub", 1, Sub),
    KEEL_INTEGERS(binary, "mul", 1, Mul),
    KEEL_INTEGERS(binary, "div", 4, Div),
    KEEL_INTEGERS(binary, "mod", 8, Mod),
    KEEL_INTEGERS(binary, "pow", 30, Pow),
    KEEL_INTEGERS(binary, "maximum", 1, Maximum),
    KEEL_INTEGERS(binary, "minimum", 1, Minimum),
    KEEL_INTEGERS(unary, "neg", 1, Neg),
    KEEL_INTEGERS(unary, "abs", 1, Abs),
    KEEL_INTEGERS(unary, "sign", 4, Sign),
    KEEL_INTEGERS(unary, "square", 1, Square),
    KEEL_INTEGERS(unary, "relu", 1, Relu),
    KEEL_INTEGERS(unary, "floor", 2, Whole),
    KEEL_INTEGERS(unary, "ceil", 2, Whole),
    KEEL_INTEGERS(unary, "round", 2, Whole),
    KEEL_INTEGER_TESTS("equal", Equal),
    KEEL_INTEGER_TESTS("not_equal", NotEqual),
    KEEL_INTEGER_TESTS("less", Less),
    KEEL_INTEGER_TESTS("less_equal", LessEqual),
    KEEL_INTEGER_TESTS("greater", Greater),
    KEEL_INTEGER_TESTS("greater_equal", GreaterEqual),
};

}  // namespace

InstructionTable integer_entries() { return {kEntries, sizeof(kEntries) / sizeof(kEntries[0])}; }

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {
HWY_EXPORT(integer_entries);
InstructionTable integer_table() { return HWY_DYNAMIC_DISPATCH(integer_entries)(); }
}  // namespace keel::vector
#endif
