#include "bench/machine_limits.h"

#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace keel_bench {
namespace {

// Vectors of whatever width the compiler targets: -march=native is set for this file.
#if defined(__AVX512F__)
constexpr size_t kLanes = 16;
#elif defined(__AVX2__)
constexpr size_t kLanes = 8;
#else
constexpr size_t kLanes = 4;
#endif
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float)), may_alias));

Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }

template <bool kPastCaches>
void store(Vector v, float* to) {
#if defined(__AVX512F__)
  if constexpr (kPastCaches) return _mm512_stream_ps(to, reinterpret_cast<__m512>(v));
#elif defined(__AVX2__)
  if constexpr (kPastCaches) return _mm256_stream_ps(to, reinterpret_cast<__m256>(v));
#endif
  *reinterpret_cast<Vector*>(to) = v;
}

void order_stores() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

template <bool kPastCaches>
void copy(const float* a, float* to, size_t n) {
  for (size_t i = 0; i < n; i += 2 * kLanes) {
    const Vector first = load(a + i), second = load(a + i + kLanes);
    store<kPastCaches>(first, to + i);
    store<kPastCaches>(second, to + i + kLanes);
  }
}

template <bool kPastCaches>
void add_products(const float* a, const float* b, const float* c, float* to, size_t n) {
  for (size_t i = 0; i < n; i += 2 * kLanes) {
    const Vector first = load(a + i) * load(b + i) + load(c + i);
    const Vector second = load(a + i + kLanes) * load(b + i + kLanes) + load(c + i + kLanes);
    store<kPastCaches>(first, to + i);
    store<kPastCaches>(second, to + i + kLanes);
  }
}

}  // namespace

double run_fma_chains() {
  constexpr long kTurns = 20000, kChains = 12;
  Vector sums[kChains] = {};
  Vector a = Vector{} + 0.75f, b = Vector{} + 0.5f;
  for (long turn = 0; turn < kTurns; ++turn) {
#if defined(__AVX512F__)
#pragma GCC unroll 12
    for (Vector& sum : sums) asm("vfmadd231ps %1, %2, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
#pragma GCC unroll 12
    for (Vector& sum : sums) {
      sum = a * b + sum;
      asm("" : "+x"(sum));
    }
#endif
  }
  for (const Vector& sum : sums) a += sum;
  asm volatile("" : : "m"(a));
  return 2.0 * kTurns * kChains * kLanes;
}

void copy_floats(const float* a, float* to, size_t n, bool past_caches) {
  past_caches ? copy<true>(a, to, n) : copy<false>(a, to, n);
  order_stores();
}

void triad(const float* a, const float* b, const float* c, float* to, size_t n, bool past_caches) {
  past_caches ? add_products<true>(a, b, c, to, n) : add_products<false>(a, b, c, to, n);
  order_stores();
}

float read_floats(const float* a, size_t n) {
  Vector sums[4] = {};
  for (size_t i = 0; i < n; i += 4 * kLanes) {
    for (size_t j = 0; j < 4; ++j) sums[j] += load(a + i + j * kLanes);
  }
  sums[0] += sums[1] + sums[2] + sums[3];
  float total = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) total += sums[0][lane];
  return total;
}

}  // namespace keel_bench
