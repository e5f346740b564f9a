#include "cli/bench/machine_limits.h"

#include <atomic>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace keel_cli {
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

void order_stores() {
  std::atomic<int> word{0};
  word.exchange(1, std::memory_order_seq_cst);
}

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

// As pairs of bf16 they are finite as well.
alignas(64) const float operands[16] = {0.75f, 0.5f, 0.625f, 0.875f, 0.75f, 0.5f, 0.625f, 0.875f,
                                        0.75f, 0.5f, 0.625f, 0.875f, 0.75f, 0.5f, 0.625f, 0.875f};

}  // namespace

// In assembly, so that nothing but multiply-adds on registers is in the loops.
double run_fma_chains() {
  long turns = 20000;
  const double done = 2.0 * static_cast<double>(turns) * kLanes;
#if defined(__AVX512F__)
  asm volatile(
      "vmovups (%1), %%zmm24\n vmovups (%1), %%zmm25\n"
      "1:\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
      "vfmadd231ps %%zmm24, %%zmm25, %%zmm\\r\n"
      ".endr\n"
      "dec %0\n jnz 1b\n"
      : "+r"(turns)
      : "r"(operands)
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19",
        "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25");
  return done * 24;
#elif defined(__AVX2__)
  asm volatile(
      "vmovups (%1), %%ymm12\n vmovups (%1), %%ymm13\n"
      "1:\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm\\r\n"
      ".endr\n"
      "dec %0\n jnz 1b\n"
      : "+r"(turns)
      : "r"(operands)
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10", "xmm11", "xmm12", "xmm13");
  return done * 12;
#else
  static_cast<void>(operands);
  static_cast<void>(turns);
  static_cast<void>(done);
  return 0;  // no limit is known here
#endif
}

double run_bf16_chains() {
#if defined(__AVX512BF16__)
  long turns = 20000;
  const double done = 2.0 * static_cast<double>(turns) * 2 * kLanes;
  asm volatile(
      "vmovups (%1), %%zmm24\n vmovups (%1), %%zmm25\n"
      "1:\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
      "vdpbf16ps %%zmm24, %%zmm25, %%zmm\\r\n"
      ".endr\n"
      "dec %0\n jnz 1b\n"
      : "+r"(turns)
      : "r"(operands)
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19",
        "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25");
  return done * 24;
#else
  return 0;
#endif
}

bool has_matrix_unit() noexcept {
#if defined(__AMX_BF16__) || defined(__AVX512FP16__)
  return true;
#else
  return false;
#endif
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

}  // namespace keel_cli
