// What the hand-written training steps share: floats on huge pages, an exponential. Only for files
// that are compiled for AVX-512.
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

inline __m512 exp16(__m512 x) {
  x = _mm512_max_ps(_mm512_min_ps(x, _mm512_set1_ps(88.0f)), _mm512_set1_ps(-87.0f));
  const __m512 k = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
  // The remainder by ln 2 in two parts, then the usual polynomial.
  __m512 r = _mm512_fnmadd_ps(k, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(k, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.9875691500e-4f);
  for (const float c :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
  }
  p = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1));
  return _mm512_scalef_ps(p, k);
}

}  // namespace keel_bench

#endif  // KEEL_TESTS_BENCH_HAND_VECTORS_H
