#include "keel/backends/cpu/instructions.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "keel/backends/cpu/element_loop.h"
#include "keel/backends/cpu/packet_math.h"
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

// Both sources are read whatever the predicate says, so that the vectoriser can choose by lanes.
template <size_t kA, size_t kB, class T>
void select_steps(const bool* predicate, const T* a, const T* b, T* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const T yes = a[i * kA], no = b[i * kB];
    out[i] = predicate[i] ? yes : no;
  }
}

template <class T>
void select(const VectorCall& c) {
  const auto* predicate = static_cast<const bool*>(c.src[0]);
  const auto* a = static_cast<const T*>(c.src[1]);
  const auto* b = static_cast<const T*>(c.src[2]);
  auto* out = static_cast<T*>(c.dst);
  if (c.scalar[0]) {
    const T* chosen = *predicate ? a : b;
    const size_t step = (*predicate ? c.scalar[1] : c.scalar[2]) ? 0 : 1;
    for (size_t i = 0; i < c.n; ++i) out[i] = chosen[i * step];
    return;
  }
  if (c.scalar[1]) {
    (c.scalar[2] ? select_steps<0, 0, T> : select_steps<0, 1, T>)(predicate, a, b, out, c.n);
  } else {
    (c.scalar[2] ? select_steps<1, 0, T> : select_steps<1, 1, T>)(predicate, a, b, out, c.n);
  }
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

template <class T, void (*kAll)(const T*, T*, size_t)>
void all(const VectorCall& c) {
  auto* out = static_cast<T*>(c.dst);
  const auto* from = static_cast<const T*>(c.src[0]);
  kAll(from, out, c.scalar[0] ? 1 : c.n);
  if (c.scalar[0]) std::fill_n(out, c.n, *out);
}

// Computes with the vector function that there is for the dtype.
template <class T>
VectorInstruction find_vector_function(std::string_view op) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == "exp") return all<T, exp_all>;
    if (op == "log") return all<T, log_all>;
  }
  return nullptr;
}

template <class T>
VectorInstruction find_function(std::string_view op) {
  if (const VectorInstruction found = find_vector_function<T>(op)) return found;
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

// Bytes may alias anything: the vectoriser has to be told.
template <class From, class To>
void cast_apart(const From* __restrict from, To* __restrict to, size_t count) {
  if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, float>)
    widen_all(from, to, count);
  else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Half>)
    narrow_all(from, to, count);
  else
    for (size_t i = 0; i < count; ++i) to[i] = convert_element<To>(from[i]);
}

template <class From, class To>
void cast(const VectorCall& c) {
  const auto* from = static_cast<const From*>(c.src[0]);
  auto* to = static_cast<To*>(c.dst);
  if (c.scalar[0]) {
    std::fill_n(to, c.n, convert_element<To>(from[0]));
    return;
  }
  if (c.dst == c.src[0]) {
    for (size_t i = 0; i < c.n; ++i) to[i] = convert_element<To>(from[i]);
  } else {
    cast_apart(from, to, c.n);
  }
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
