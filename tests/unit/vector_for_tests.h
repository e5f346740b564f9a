// What the tests of the vector library share: running a piece on every instruction set that works
// here, numbers that owe nothing to the library, and calls of vector instructions on arrays.
#ifndef KEEL_TESTS_UNIT_VECTOR_FOR_TESTS_H
#define KEEL_TESTS_UNIT_VECTOR_FOR_TESTS_H

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/common/vector/instructions.h"

namespace vector_test {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

// Calls f() with each host ISA selected, and restores the choice there was.
template <class F>
void on_every_isa(F f) {
  const keel::vector::HostIsa before = keel::vector::host_isa();
  for (const keel::vector::HostIsa isa : keel::vector::available_host_isas()) {
    keel::vector::select_host_isa(keel::vector::name_of(isa));
    CAPTURE(std::string(keel::vector::name_of(isa)));
    f();
  }
  keel::vector::select_host_isa(keel::vector::name_of(before));
}

class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2654435761u + 88172645463325252u) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  // In [-1, 1).
  float uniform() {
    return static_cast<float>(static_cast<double>(next() >> 40) / 8388608.0 - 1.0);
  }

 private:
  uint64_t state_;
};

inline bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

// dst[i] = op(sources...), on arrays of one type each; a source of one element counts as a scalar.
template <class Out, class... In>
std::vector<Out> run(const char* op, keel::DType in, keel::DType out, size_t n,
                     const std::vector<In>&... sources) {
  const keel::VectorInstruction instruction = keel::vector::find_instruction(op, in, out);
  CAPTURE(std::string(op));
  CAPTURE(std::string(keel::name_of(in)));
  REQUIRE((instruction != nullptr));
  // Guards on both sides show a write out of bounds.
  constexpr size_t kGuard = 32;
  std::vector<Out> dst(n + 2 * kGuard);
  std::memset(static_cast<void*>(dst.data()), 0x5a, dst.size() * sizeof(Out));
  keel::VectorCall call;
  call.dst = dst.data() + kGuard;
  call.n = n;
  int s = 0;
  ((call.src[s] = sources.data(), call.scalar[s] = sources.size() == 1 && n != 1, ++s), ...);
  instruction(call);
  size_t touched = 0;
  for (size_t i = 0; i < kGuard * sizeof(Out); ++i) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(dst.data());
    touched += bytes[i] != 0x5a;
    touched += bytes[(n + kGuard) * sizeof(Out) + i] != 0x5a;
  }
  CHECK(touched == 0);
  return {dst.begin() + kGuard, dst.begin() + kGuard + static_cast<std::ptrdiff_t>(n)};
}

}  // namespace vector_test

#endif  // KEEL_TESTS_UNIT_VECTOR_FOR_TESTS_H
