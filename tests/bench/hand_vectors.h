// What the hand-written training steps share: floats on huge pages, vectors of the instructions
// that a file is compiled for, AVX-512 or AVX2, and their exponential. A file that includes it is
// compiled once for each and puts what it has into namespace KEEL_HAND_ISA.
#ifndef KEEL_TESTS_BENCH_HAND_VECTORS_H
#define KEEL_TESTS_BENCH_HAND_VECTORS_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <immintrin.h>
#include <new>

#include <sys/mman.h>

namespace keel_bench {

#if defined(__AVX512F__)
#define KEEL_HAND_ISA avx512
#elif defined(__AVX2__)
#define KEEL_HAND_ISA avx2
#else
#error "compile this file for AVX-512 or AVX2"
#endif

namespace KEEL_HAND_ISA {

// Zeros at first, on huge pages from 2 MiB on. Owns them.
template <class T>
class Block {
 public:
  explicit Block(size_t count) {
    const size_t page = count * sizeof(T) >= kHugePage ? kHugePage : 4096;
    const size_t bytes = (count * sizeof(T) + page - 1) / page * page;
    data_ = static_cast<T*>(std::aligned_alloc(page, bytes));
    if (data_ == nullptr) throw std::bad_alloc();
    if (page == kHugePage) madvise(data_, bytes, MADV_HUGEPAGE);
    std::memset(data_, 0, bytes);
  }
  ~Block() { std::free(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  T* get() const { return data_; }
  T& operator[](std::ptrdiff_t i) const { return data_[i]; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  T* data_ = nullptr;
};

#if defined(__AVX512F__)

using Floats = __m512;
constexpr int kLanes = 16;

inline Floats zeros() { return _mm512_setzero_ps(); }
inline Floats all(float x) { return _mm512_set1_ps(x); }
inline Floats load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
inline Floats load_bytes(const uint8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
inline Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
inline Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
inline Floats least(Floats a, Floats b) { return _mm512_min_ps(a, b); }
inline Floats most(Floats a, Floats b) { return _mm512_max_ps(a, b); }
// a * b + c, and c - a * b.
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats subtract_product(Floats a, Floats b, Floats c) { return _mm512_fnmadd_ps(a, b, c); }
inline float sum_of(Floats v) { return _mm512_reduce_add_ps(v); }
inline Floats to_nearest(Floats v) { return _mm512_roundscale_ps(v, 0); }
inline Floats times_power_of_two(Floats v, Floats power) { return _mm512_scalef_ps(v, power); }

#else

using Floats = __m256;
constexpr int kLanes = 8;

inline Floats zeros() { return _mm256_setzero_ps(); }
inline Floats all(float x) { return _mm256_set1_ps(x); }
inline Floats load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, Floats v) { _mm256_storeu_ps(p, v); }
inline Floats load_bytes(const uint8_t* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
inline Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
inline Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Floats divide(Floats a, Floats b) { return _mm256_div_ps(a, b); }
inline Floats least(Floats a, Floats b) { return _mm256_min_ps(a, b); }
inline Floats most(Floats a, Floats b) { return _mm256_max_ps(a, b); }
// a * b + c, and c - a * b.
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats subtract_product(Floats a, Floats b, Floats c) { return _mm256_fnmadd_ps(a, b, c); }
inline float sum_of(Floats v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
inline Floats to_nearest(Floats v) {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// For powers of normal floats.
inline Floats times_power_of_two(Floats v, Floats power) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(power), _mm256_set1_epi32(127));
  return _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}

#endif

inline Floats exp_of(Floats x) {
  x = most(least(x, all(88.0f)), all(-87.0f));
  const Floats k = to_nearest(multiply(x, all(1.44269504f)));
  // The remainder by ln 2 in two parts, then the usual polynomial.
  Floats r = subtract_product(k, all(0.693359375f), x);
  r = subtract_product(k, all(-2.12194440e-4f), r);
  Floats p = all(1.9875691500e-4f);
  for (const float c :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    p = multiply_add(p, r, all(c));
  }
  p = add(multiply_add(p, multiply(r, r), r), all(1));
  return times_power_of_two(p, k);
}

}  // namespace KEEL_HAND_ISA
}  // namespace keel_bench

#endif  // KEEL_TESTS_BENCH_HAND_VECTORS_H
