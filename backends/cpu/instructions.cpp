#include "keel/backends/cpu/instructions.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "keel/backends/cpu/element_loop.h"
#include "keel/ops/scalar_rules.h"

namespace keel::cpu {
namespace {

struct Named {
  std::string_view name;
  VectorInstruction function;
};

template <size_t N>
VectorInstruction find(const Named (&table)[N], std::string_view op) {
  const auto* it = std::find_if(table, table + N, [&](const Named& n) { return n.name == op; });
  return it == table + N ? nullptr : it->function;
}

// Functions are stateless lambdas, so that each instruction is a loop of its own.
template <class T, class F>
void unary(const VectorCall& c) {
  unary_loop<T, T>(c, F{});
}
template <class T, class F>
void binary(const VectorCall& c) {
  binary_loop<T, T>(c, F{});
}
template <class T, class F>
void compare(const VectorCall& c) {
  binary_loop<T, bool>(c, F{});
}

#define KEEL_CPU_FUNCTION(Name, parameters, expression) \
  struct Name {                                         \
    template <class T>                                  \
    auto operator() parameters const {                  \
      return expression;                                \
    }                                                   \
  }

KEEL_CPU_FUNCTION(Add, (T a, T b), scalar::add(a, b));
KEEL_CPU_FUNCTION(Sub, (T a, T b), scalar::sub(a, b));
KEEL_CPU_FUNCTION(Mul, (T a, T b), scalar::mul(a, b));
KEEL_CPU_FUNCTION(Div, (T a, T b), scalar::div(a, b));
KEEL_CPU_FUNCTION(Mod, (T a, T b), scalar::mod(a, b));
KEEL_CPU_FUNCTION(Pow, (T a, T b), scalar::pow(a, b));
KEEL_CPU_FUNCTION(Maximum, (T a, T b), scalar::maximum(a, b));
KEEL_CPU_FUNCTION(Minimum, (T a, T b), scalar::minimum(a, b));
KEEL_CPU_FUNCTION(Equal, (T a, T b), a == b);
KEEL_CPU_FUNCTION(NotEqual, (T a, T b), a != b);
KEEL_CPU_FUNCTION(Less, (T a, T b), a < b);
KEEL_CPU_FUNCTION(LessEqual, (T a, T b), a <= b);
KEEL_CPU_FUNCTION(Greater, (T a, T b), a > b);
KEEL_CPU_FUNCTION(GreaterEqual, (T a, T b), a >= b);
KEEL_CPU_FUNCTION(And, (T a, T b), static_cast<T>(a&& b));
KEEL_CPU_FUNCTION(Or, (T a, T b), static_cast<T>(a || b));
KEEL_CPU_FUNCTION(Xor, (T a, T b), static_cast<T>(a != b));
KEEL_CPU_FUNCTION(Not, (T a), !a);
KEEL_CPU_FUNCTION(Neg, (T a), scalar::neg(a));
KEEL_CPU_FUNCTION(Abs, (T a), scalar::abs(a));
KEEL_CPU_FUNCTION(Sign, (T a), scalar::sign(a));
KEEL_CPU_FUNCTION(Square, (T a), scalar::mul(a, a));
KEEL_CPU_FUNCTION(Relu, (T a), scalar::relu(a));
KEEL_CPU_FUNCTION(Exp, (T a), std::exp(a));
KEEL_CPU_FUNCTION(Log, (T a), std::log(a));
KEEL_CPU_FUNCTION(Log1p, (T a), std::log1p(a));
KEEL_CPU_FUNCTION(Expm1, (T a), std::expm1(a));
KEEL_CPU_FUNCTION(Sqrt, (T a), std::sqrt(a));
KEEL_CPU_FUNCTION(Rsqrt, (T a), T(1) / std::sqrt(a));
KEEL_CPU_FUNCTION(Reciprocal, (T a), T(1) / a);
KEEL_CPU_FUNCTION(Tanh, (T a), std::tanh(a));
KEEL_CPU_FUNCTION(Sigmoid, (T a), static_cast<T>(scalar::sigmoid(static_cast<double>(a))));
KEEL_CPU_FUNCTION(Gelu, (T a), static_cast<T>(scalar::gelu(static_cast<double>(a))));
KEEL_CPU_FUNCTION(Sin, (T a), std::sin(a));
KEEL_CPU_FUNCTION(Cos, (T a), std::cos(a));
KEEL_CPU_FUNCTION(Floor, (T a), std::floor(a));
KEEL_CPU_FUNCTION(Ceil, (T a), std::ceil(a));
KEEL_CPU_FUNCTION(Round, (T a), std::nearbyint(a));
KEEL_CPU_FUNCTION(Erf, (T a), std::erf(a));
KEEL_CPU_FUNCTION(Same, (T a), a);
#undef KEEL_CPU_FUNCTION

template <class T>
void clamp(const VectorCall& c) {
  using C = ComputeType<T>;
  const C low = convert_element<C>(c.imm[0]);
  const C high = convert_element<C>(c.imm[1]);
  unary_loop<T, T>(c, [=](C x) { return x < low ? low : high < x ? high : x; });
}

template <class T>
void select(const VectorCall& c) {
  const auto* predicate = static_cast<const bool*>(c.src[0]);
  const auto* a = static_cast<const T*>(c.src[1]);
  const auto* b = static_cast<const T*>(c.src[2]);
  auto* out = static_cast<T*>(c.dst);
  const size_t p_step = c.scalar[0] ? 0 : 1;
  const size_t a_step = c.scalar[1] ? 0 : 1;
  const size_t b_step = c.scalar[2] ? 0 : 1;
  for (size_t i = 0; i < c.n; ++i) out[i] = predicate[i * p_step] ? a[i * a_step] : b[i * b_step];
}

template <class T>
VectorInstruction find_arithmetic(std::string_view op) {
  static constexpr Named kTable[] = {
      {"add", binary<T, Add>},         {"sub", binary<T, Sub>},
      {"mul", binary<T, Mul>},         {"div", binary<T, Div>},
      {"mod", binary<T, Mod>},         {"pow", binary<T, Pow>},
      {"neg", unary<T, Neg>},          {"maximum", binary<T, Maximum>},
      {"minimum", binary<T, Minimum>}, {"abs", unary<T, Abs>},
      {"sign", unary<T, Sign>},        {"square", unary<T, Square>},
      {"relu", unary<T, Relu>},        {"clamp", clamp<T>}};
  return find(kTable, op);
}

template <class T>
VectorInstruction find_function(std::string_view op) {
  static constexpr Named kTable[] = {{"exp", unary<T, Exp>},
                                     {"log", unary<T, Log>},
                                     {"log1p", unary<T, Log1p>},
                                     {"expm1", unary<T, Expm1>},
                                     {"sqrt", unary<T, Sqrt>},
                                     {"rsqrt", unary<T, Rsqrt>},
                                     {"tanh", unary<T, Tanh>},
                                     {"sin", unary<T, Sin>},
                                     {"reciprocal", unary<T, Reciprocal>},
                                     {"sigmoid", unary<T, Sigmoid>},
                                     {"gelu", unary<T, Gelu>},
                                     {"cos", unary<T, Cos>},
                                     {"floor", unary<T, Floor>},
                                     {"ceil", unary<T, Ceil>},
                                     {"round", unary<T, Round>},
                                     {"erf", unary<T, Erf>}};
  return find(kTable, op);
}

template <class T>
VectorInstruction find_comparison(std::string_view op) {
  static constexpr Named kTable[] = {
      {"equal", compare<T, Equal>},     {"not_equal", compare<T, NotEqual>},
      {"less", compare<T, Less>},       {"less_equal", compare<T, LessEqual>},
      {"greater", compare<T, Greater>}, {"greater_equal", compare<T, GreaterEqual>}};
  return find(kTable, op);
}

VectorInstruction find_logic(std::string_view op) {
  static constexpr Named kTable[] = {
      {"logical_and", binary<bool, And>}, {"logical_or", binary<bool, Or>},
      {"logical_xor", binary<bool, Xor>}, {"logical_not", unary<bool, Not>},
      {"equal", compare<bool, Equal>},    {"not_equal", compare<bool, NotEqual>}};
  return find(kTable, op);
}

template <class From, class To>
void cast(const VectorCall& c) {
  const auto* from = static_cast<const From*>(c.src[0]);
  auto* to = static_cast<To*>(c.dst);
  const size_t step = c.scalar[0] ? 0 : 1;
  for (size_t i = 0; i < c.n; ++i) to[i] = convert_element<To>(from[i * step]);
}

// floor, ceil and round of integers are the integers.
VectorInstruction find_whole(std::string_view op, DType dtype) {
  if (op != "floor" && op != "ceil" && op != "round") return nullptr;
  return find_cast(dtype, dtype);
}

}  // namespace

VectorInstruction find_cast(DType in, DType out) {
  return visit_dtype(in, [&]<class From>() -> VectorInstruction {
    return visit_dtype(out, []<class To>() -> VectorInstruction { return cast<From, To>; });
  });
}

VectorInstruction find_instruction(std::string_view op, DType in, DType out) {
  if (op == "cast" || op == "copy") return find_cast(in, out);
  return visit_dtype(in, [&]<class T>() -> VectorInstruction {
    if (op == "select") return in == out ? select<T> : nullptr;
    if constexpr (std::is_same_v<T, bool>) {
      return out == boolean ? find_logic(op) : nullptr;
    } else {
      if (out == boolean) return find_comparison<T>(op);
      if (out != in) return nullptr;
      if (VectorInstruction f = find_arithmetic<T>(op)) return f;
      if constexpr (std::is_integral_v<T>)
        return find_whole(op, in);
      else
        return find_function<T>(op);
    }
  });
}

}  // namespace keel::cpu
