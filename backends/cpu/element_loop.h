// The loops that turn a function of single elements into a vector instruction. Halves are computed
// in float and rounded once per instruction, as if stored.
#ifndef KEEL_BACKENDS_CPU_ELEMENT_LOOP_H
#define KEEL_BACKENDS_CPU_ELEMENT_LOOP_H

#include <cstddef>
#include <type_traits>

#include "keel/backends/common/vector_call.h"
#include "keel/core/tensor/convert.h"

namespace keel::cpu {

template <class T>
using ComputeType = std::conditional_t<is_half_type<T>, float, T>;

template <class T>
ComputeType<T> load(const void* source, size_t i) {
  return static_cast<ComputeType<T>>(static_cast<const T*>(source)[i]);
}

template <class To, class From>
To round_to(From value) {
  if constexpr (is_half_type<To>)
    return To(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

template <class In, class Out, class F>
void unary_loop(const VectorCall& c, F f) {
  auto* out = static_cast<Out*>(c.dst);
  if (c.scalar[0]) {
    const Out value = round_to<Out>(f(load<In>(c.src[0], 0)));
    for (size_t i = 0; i < c.n; ++i) out[i] = value;
    return;
  }
  for (size_t i = 0; i < c.n; ++i) out[i] = round_to<Out>(f(load<In>(c.src[0], i)));
}

template <class In, class Out, class F>
void binary_loop(const VectorCall& c, F f) {
  auto* out = static_cast<Out*>(c.dst);
  const size_t a_step = c.scalar[0] ? 0 : 1;
  const size_t b_step = c.scalar[1] ? 0 : 1;
  // Four loops, so that each has constant steps for the vectoriser.
  if (a_step == 1 && b_step == 1) {
    for (size_t i = 0; i < c.n; ++i) {
      out[i] = round_to<Out>(f(load<In>(c.src[0], i), load<In>(c.src[1], i)));
    }
  } else if (a_step == 1) {
    const auto b = load<In>(c.src[1], 0);
    for (size_t i = 0; i < c.n; ++i) out[i] = round_to<Out>(f(load<In>(c.src[0], i), b));
  } else if (b_step == 1) {
    const auto a = load<In>(c.src[0], 0);
    for (size_t i = 0; i < c.n; ++i) out[i] = round_to<Out>(f(a, load<In>(c.src[1], i)));
  } else {
    const Out value = round_to<Out>(f(load<In>(c.src[0], 0), load<In>(c.src[1], 0)));
    for (size_t i = 0; i < c.n; ++i) out[i] = value;
  }
}

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_ELEMENT_LOOP_H
