#include "keel/backends/cpu/packet_math.h"

#include <algorithm>
#include <limits>
#ifdef __F16C__
#include <immintrin.h>
#endif

#include <Eigen/Core>

namespace keel::cpu {
namespace {

namespace packets = Eigen::internal;

struct Exp {
  template <class Packet>
  static Packet of(const Packet& x) {
    // Eigen's stays above zero for doubles, whatever is below: for -infinity, too.
    using T = typename packets::unpacket_traits<Packet>::type;
    using Limits = std::numeric_limits<T>;
    constexpr T kLeast =
        static_cast<T>((Limits::min_exponent - Limits::digits) * 0.693147180559945);
    const Packet nothing = packets::pcmp_lt(x, packets::pset1<Packet>(kLeast));
    return packets::pandnot(packets::pexp(x), nothing);
  }
};
struct Log {
  template <class Packet>
  static Packet of(const Packet& x) {
    return packets::plog(x);
  }
};

// do_vector(from, to) for each kLanes elements; the last ones in a vector that is filled up.
template <size_t kLanes, class From, class To, class DoVector>
void in_vectors(const From* from, To* to, size_t count, DoVector do_vector) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) do_vector(from + i, to + i);
  if (i == count) return;
  From rest[kLanes];
  To done[kLanes];
  std::fill(std::copy(from + i, from + count, rest), rest + kLanes, static_cast<From>(1.0f));
  do_vector(rest, done);
  std::copy_n(done, count - i, to + i);
}

template <class F, class T>
void for_all(const T* from, T* to, size_t count) {
  using Packet = typename packets::packet_traits<T>::type;
  in_vectors<packets::packet_traits<T>::size>(from, to, count, [](const T* x, T* y) {
    packets::pstoreu(y, F::of(packets::ploadu<Packet>(x)));
  });
}

}  // namespace

void exp_all(const float* from, float* to, size_t count) { for_all<Exp>(from, to, count); }
void exp_all(const double* from, double* to, size_t count) { for_all<Exp>(from, to, count); }
void log_all(const float* from, float* to, size_t count) { for_all<Log>(from, to, count); }
void log_all(const double* from, double* to, size_t count) { for_all<Log>(from, to, count); }

#ifdef __F16C__
void widen_all(const Half* from, float* to, size_t count) {
  in_vectors<8>(from, to, count, [](const Half* x, float* y) {
    _mm256_storeu_ps(y, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
  });
}
void narrow_all(const float* from, Half* to, size_t count) {
  in_vectors<8>(from, to, count, [](const float* x, Half* y) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT));
  });
}
#else
void widen_all(const Half* __restrict from, float* __restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = from[i];
}
void narrow_all(const float* __restrict from, Half* __restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = Half(from[i]);
}
#endif

}  // namespace keel::cpu
