// Loops over elements one by one, for integers and bools, which the compiler turns into vector code
// of the target that includes this. Included once per Highway target.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_ELEMENT_LOOP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_ELEMENT_LOOP_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_ELEMENT_LOOP_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_ELEMENT_LOOP_INL_H
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

#include "keel/backends/common/vector/instructions.h"

// Before a loop whose sources and result are the same addresses or none in common. Clang has
// nothing as mild: there the check that the loop makes for itself must do.
#undef KEEL_INDEPENDENT_TURNS
#if HWY_COMPILER_CLANG
#define KEEL_INDEPENDENT_TURNS
#else
#define KEEL_INDEPENDENT_TURNS _Pragma("GCC ivdep")
#endif

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {

template <class T, bool kScalar>
class Elements {
 public:
  HWY_INLINE Elements(const VectorCall& call, int source)
      : at_(static_cast<const T*>(call.src[source])), value_(kScalar && call.n > 0 ? *at_ : T()) {}
  HWY_INLINE T operator[](size_t i) const {
    if constexpr (kScalar) return value_;
    return at_[i];
  }

 private:
  const T* at_;
  T value_;
};

// dst[i] = f(a[i])
template <class In, class Out, bool kA, class F>
HWY_INLINE void loop1(const VectorCall& call, F f) {
  const Elements<In, kA> a(call, 0);
  auto* dst = static_cast<Out*>(call.dst);
  const size_t n = call.n;
  KEEL_INDEPENDENT_TURNS
  for (size_t i = 0; i < n; ++i) dst[i] = f(a[i]);
}

template <class In, class Out, class F>
HWY_INLINE void run_unary(const VectorCall& call, F f) {
  call.scalar[0] ? loop1<In, Out, true>(call, f) : loop1<In, Out, false>(call, f);
}

template <class In, class Out, bool kA, bool kB, class F>
HWY_INLINE void loop2(const VectorCall& call, F f) {
  const Elements<In, kA> a(call, 0);
  const Elements<In, kB> b(call, 1);
  auto* dst = static_cast<Out*>(call.dst);
  const size_t n = call.n;
  KEEL_INDEPENDENT_TURNS
  for (size_t i = 0; i < n; ++i) dst[i] = f(a[i], b[i]);
}

template <class In, class Out, class F>
HWY_INLINE void run_binary(const VectorCall& call, F f) {
  if (call.scalar[0]) {
    call.scalar[1] ? loop2<In, Out, true, true>(call, f) : loop2<In, Out, true, false>(call, f);
  } else {
    call.scalar[1] ? loop2<In, Out, false, true>(call, f) : loop2<In, Out, false, false>(call, f);
  }
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_ELEMENT_LOOP_INL_H
