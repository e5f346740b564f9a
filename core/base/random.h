// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). A stream is named by a
// 64-bit key; its values are addressed by index, so any part of it can be computed anywhere, in any
// order and by any number of threads, with the same bits. Ops, initialisers, shuffles and dropout
// all draw from here. Pure functions; any thread.
#ifndef KEEL_CORE_BASE_RANDOM_H
#define KEEL_CORE_BASE_RANDOM_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "keel/core/base/export.h"

namespace keel {

// Returns one block of Philox4x32 with ten rounds: 128 counter bits and 64 key bits to 128 random
// bits.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Block `block` of the stream `key`: its words 4 * block to 4 * block + 3.
constexpr std::array<uint32_t, 4> random_block(uint64_t key, uint64_t block) noexcept {
  return philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                    {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

// Word `index` of the stream `key`.
constexpr uint32_t random_bits(uint64_t key, uint64_t index) noexcept {
  return random_block(key, index / 4)[index % 4];
}

// Returns a key derived from `key` and `data`: one Philox block keyed by `key` on a counter that no
// stream of `key` reaches, so folded keys are unrelated to the stream's words and to one another.
// Not commutative: fold(fold(k, a), b) differs from fold(fold(k, b), a).
constexpr uint64_t fold_key(uint64_t key, uint64_t data) noexcept {
  const auto words = philox4x32(
      {static_cast<uint32_t>(data), static_cast<uint32_t>(data >> 32), 0x6B65656Cu, 0x666F6C64u},
      {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  return words[0] | (uint64_t{words[1]} << 32);
}

// Does the same with a text (a state's name): folds its length, then its bytes by eights, little
// endian.
KEEL_API uint64_t fold_key(uint64_t key, std::string_view text) noexcept;

// [0, 1), a multiple of 2^-24.
constexpr float uniform_float(uint32_t bits) noexcept {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

// [0, 1), a multiple of 2^-53.
constexpr double uniform_double(uint32_t high, uint32_t low) noexcept {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

// True with the given probability (to 2^-32; 0 never, 1 always; NaN never).
constexpr bool bernoulli(uint32_t bits, double probability) noexcept {
  return static_cast<double>(bits) * 0x1p-32 < probability;
}

// Element `index` of the standard normal sequence of `key`: Box-Muller in double on the words 2p
// and 2p + 1 of pair p = index / 2; even elements take the cosine, odd ones the sine. |value|
// <= 6.8.
KEEL_API double normal(uint64_t key, uint64_t index) noexcept;

// Elements first_index, first_index + 1, ... of a key's sequence. What element i is depends on key
// and i alone:
//   uniform float: word i.  uniform double: words 2i (high) and 2i + 1 (low).
//   normal: normal(key, i), rounded to float.  bernoulli: word i, as 1 or 0.
KEEL_API void fill_uniform(float* out, size_t count, uint64_t key, uint64_t first_index) noexcept;
KEEL_API void fill_uniform(double* out, size_t count, uint64_t key, uint64_t first_index) noexcept;
KEEL_API void fill_normal(float* out, size_t count, uint64_t key, uint64_t first_index) noexcept;
KEEL_API void fill_normal(double* out, size_t count, uint64_t key, uint64_t first_index) noexcept;
KEEL_API void fill_bernoulli(bool* out, size_t count, double probability, uint64_t key,
                             uint64_t first_index) noexcept;

// A bijection on [0, n) chosen by a key, without a table: a Feistel network on a power of two that
// holds n, walked along its cycle until it lands inside. n = 0 has no elements.
class KEEL_API Permutation {
 public:
  Permutation(uint64_t n, uint64_t key) noexcept;
  uint64_t size() const noexcept { return n_; }
  // Returns where i goes. REQUIRES i < size().
  uint64_t operator[](uint64_t i) const noexcept;
  // Returns where 0, 1, ..., n - 1 go, several times as fast as one by one. REQUIRES n < 2^32.
  std::vector<uint32_t> written_out() const;

 private:
  // Once along the cycle of the power of two; REQUIRES i inside that.
  uint64_t step(uint64_t i) const noexcept;
  void steps(uint64_t begin, uint64_t count, uint64_t* images) const noexcept;
  void wide_steps(uint64_t begin, uint64_t count, uint64_t* images) const noexcept;

  static constexpr size_t kRounds = 8;
  struct Round {
    uint64_t mask = 0;
    uint64_t factor = 1;  // odd
    uint64_t operator()(uint64_t half) const noexcept {
      const uint64_t product = (half ^ mask) * factor;
      return ((product ^ (product >> 32)) * 0x9E3779B97F4A7C15u) >> 32;
    }
  };

  uint64_t n_;
  int low_bits_ = 0;
  uint64_t low_mask_ = 0;
  uint64_t high_mask_ = 0;
  std::array<Round, kRounds> rounds_{};
};

// Permutation(n, key) of 0, 1, ..., n - 1, written out.
KEEL_API std::vector<uint32_t> shuffled_indices(uint32_t n, uint64_t key);

}  // namespace keel

#endif  // KEEL_CORE_BASE_RANDOM_H
