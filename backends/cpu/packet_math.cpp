#include "keel/backends/cpu/packet_math.h"

#include <algorithm>
#include <limits>

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

template <class F, class T>
void for_all(const T* from, T* to, size_t count) {
  using Packet = typename packets::packet_traits<T>::type;
  constexpr size_t kLanes = packets::packet_traits<T>::size;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    packets::pstoreu(to + i, F::of(packets::ploadu<Packet>(from + i)));
  }
  if (i == count) return;
  T rest[kLanes];
  std::fill(std::copy(from + i, from + count, rest), rest + kLanes, T{1});
  packets::pstoreu(rest, F::of(packets::ploadu<Packet>(rest)));
  std::copy_n(rest, count - i, to + i);
}

}  // namespace

void exp_all(const float* from, float* to, size_t count) { for_all<Exp>(from, to, count); }
void exp_all(const double* from, double* to, size_t count) { for_all<Exp>(from, to, count); }
void log_all(const float* from, float* to, size_t count) { for_all<Log>(from, to, count); }
void log_all(const double* from, double* to, size_t count) { for_all<Log>(from, to, count); }

}  // namespace keel::cpu
