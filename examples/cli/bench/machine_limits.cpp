#include "cli/bench/machine_limits.h"

#include <atomic>
#include <cstdint>

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
// NOLINTNEXTLINE(modernize-use-using): attributes of a vector stand on a typedef.
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

// value(i): the vector that begins with element i.
template <bool kPastCaches, class Value>
void store_all(float* to, size_t n, const Value& value) {
  for (size_t i = 0; i < n; i += 2 * kLanes) {
    const Vector first = value(i), second = value(i + kLanes);
    store<kPastCaches>(first, to + i);
    store<kPastCaches>(second, to + i + kLanes);
  }
}

template <class Value>
void write_all(float* to, size_t n, bool past_caches, const Value& value) {
  past_caches ? store_all<true>(to, n, value) : store_all<false>(to, n, value);
  order_stores();
}

[[maybe_unused]] constexpr long kTurns = 20000;

// As pairs of bf16 they are finite as well.
[[maybe_unused]] alignas(64) const
    float operands[16] = {0.75f, 0.5f, 0.625f, 0.875f, 0.75f, 0.5f, 0.625f, 0.875f,
                          0.75f, 0.5f, 0.625f, 0.875f, 0.75f, 0.5f, 0.625f, 0.875f};

// In assembly, so that nothing but multiply-adds on registers is in the loops: so many turns of the
// instruction on each of the registers 0 to 23 (AVX-512) or 0 to 11.
#if defined(__AVX512F__)
constexpr int kChains = 24;
#define KEEL_RUN_CHAINS(instruction, turns)                                                       \
  asm volatile(                                                                                   \
      "vmovups (%1), %%zmm24\n vmovups (%1), %%zmm25\n"                                           \
      "1:\n"                                                                                      \
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n" instruction        \
      " %%zmm24, %%zmm25, %%zmm\\r\n"                                                             \
      ".endr\n"                                                                                   \
      "dec %0\n jnz 1b\n"                                                                         \
      : "+r"(turns)                                                                               \
      : "r"(operands)                                                                             \
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",     \
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", \
        "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25")
#elif defined(__AVX2__)
constexpr int kChains = 12;
#define KEEL_RUN_CHAINS(instruction, turns)                                                   \
  asm volatile(                                                                               \
      "vmovups (%1), %%ymm12\n vmovups (%1), %%ymm13\n"                                       \
      "1:\n"                                                                                  \
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n" instruction                                        \
      " %%ymm12, %%ymm13, %%ymm\\r\n"                                                         \
      ".endr\n"                                                                               \
      "dec %0\n jnz 1b\n"                                                                     \
      : "+r"(turns)                                                                           \
      : "r"(operands)                                                                         \
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
        "xmm10", "xmm11", "xmm12", "xmm13")
#endif

}  // namespace

double run_fma_chains() {
#if defined(KEEL_RUN_CHAINS)
  long turns = kTurns;
  KEEL_RUN_CHAINS("vfmadd231ps", turns);
  return 2.0 * kTurns * kLanes * kChains;
#else
  return 0;  // no limit is known here
#endif
}

double run_bf16_chains() {
#if defined(__AVX512BF16__)
  long turns = kTurns;
  KEEL_RUN_CHAINS("vdpbf16ps", turns);
  return 2.0 * kTurns * 2 * kLanes * kChains;
#else
  return 0;
#endif
}

double run_bf16_tiles() {
#if defined(__x86_64__)
  struct alignas(64) TileConfig {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static constexpr long kTileTurns = 5000, kProducts = 8;
  const TileConfig config;
  alignas(64) float tile[16 * 16];  // zeros would be multiplied faster
  for (size_t i = 0; i < 16 * 16; ++i) tile[i] = operands[i % 16];
  long turns = kTileTurns;
  // Four sums, as a product takes one longer than four begin.
  asm volatile(
      "ldtilecfg %1\n"
      "tilezero %%tmm0\n tilezero %%tmm1\n tilezero %%tmm2\n tilezero %%tmm3\n"
      "tileloadd (%2,%3,1), %%tmm4\n tileloadd (%2,%3,1), %%tmm5\n"
      "tileloadd (%2,%3,1), %%tmm6\n tileloadd (%2,%3,1), %%tmm7\n"
      "1:\n"
      ".rept 2\n"
      "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n"
      "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n"
      ".endr\n"
      "dec %0\n jnz 1b\n"
      "tilerelease\n"
      : "+r"(turns)
      : "m"(config), "r"(tile), "r"(size_t{64})
      : "cc", "memory");
  return 2.0 * kTileTurns * kProducts * 16 * 16 * 32;
#else
  return 0;
#endif
}

bool has_f16_arithmetic() noexcept {
#if defined(__AVX512FP16__)
  return true;
#else
  return false;
#endif
}

void copy_floats(const float* a, float* to, size_t n, bool past_caches) {
  write_all(to, n, past_caches, [=](size_t i) { return load(a + i); });
}

void triad(const float* a, const float* b, const float* c, float* to, size_t n, bool past_caches) {
  write_all(to, n, past_caches, [=](size_t i) { return load(a + i) * load(b + i) + load(c + i); });
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
