#include "keel/core/base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <math.h>
#include <numbers>

namespace keel {
namespace {

// Blocks are made eight at a time, one lane each, in loops that compilers turn into vector code.
// All of it is integer arithmetic, so the bits are the same whether they do or not.
constexpr size_t kLanes = 8;
constexpr size_t kChunk = 4 * kLanes;

// Words 32 * chunk to 32 * chunk + 31 of the stream.
void make_chunk(uint32_t* out, uint64_t key, uint64_t chunk) noexcept {
  uint32_t word[4][kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const uint64_t block = chunk * kLanes + lane;
    word[0][lane] = static_cast<uint32_t>(block);
    word[1][lane] = static_cast<uint32_t>(block >> 32);
    word[2][lane] = 0;
    word[3][lane] = 0;
  }
  auto key_low = static_cast<uint32_t>(key);
  auto key_high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const uint64_t a = uint64_t{0xD2511F53u} * word[0][lane];
      const uint64_t b = uint64_t{0xCD9E8D57u} * word[2][lane];
      word[0][lane] = static_cast<uint32_t>(b >> 32) ^ word[1][lane] ^ key_low;
      word[1][lane] = static_cast<uint32_t>(b);
      word[2][lane] = static_cast<uint32_t>(a >> 32) ^ word[3][lane] ^ key_high;
      word[3][lane] = static_cast<uint32_t>(a);
    }
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t i = 0; i < 4; ++i) out[4 * lane + i] = word[i][lane];
  }
}

// Calls take(words, n, done) with the words first_word, first_word + 1, ... in pieces of at most
// kChunk; `done` counts the words of earlier pieces.
template <class Take>
void for_words(size_t count, uint64_t key, uint64_t first_word, Take&& take) noexcept {
  uint32_t words[kChunk];
  size_t done = 0;
  while (done < count) {
    const uint64_t at = first_word + done;
    const size_t skip = at % kChunk;
    const size_t n = std::min(kChunk - skip, count - done);
    make_chunk(words, key, at / kChunk);
    take(words + skip, n, done);
    done += n;
  }
}

struct NormalPair {
  double even;
  double odd;
};

NormalPair box_muller(uint32_t first, uint32_t second) noexcept {
  const double u = (static_cast<double>(first) + 0.5) * 0x1p-32;  // never 0
  const double angle = 2.0 * std::numbers::pi * (static_cast<double>(second) * 0x1p-32);
  const double radius = std::sqrt(-2.0 * std::log(u));
  // Asked for together by name: sin and cos apart may or may not be merged into it, depending on
  // optimisation.
  double sine = 0;
  double cosine = 0;
  ::sincos(angle, &sine, &cosine);
  return {radius * cosine, radius * sine};
}

template <class T>
void fill_normal_pairs(T* out, size_t count, uint64_t key, uint64_t first_index) noexcept {
  size_t done = 0;
  if (count != 0 && first_index % 2 != 0) out[done++] = static_cast<T>(normal(key, first_index));
  const size_t paired = (count - done) / 2 * 2;
  for_words(paired, key, first_index + done, [&](const uint32_t* words, size_t n, size_t before) {
    for (size_t i = 0; i < n; i += 2) {
      const NormalPair pair = box_muller(words[i], words[i + 1]);
      out[done + before + i] = static_cast<T>(pair.even);
      out[done + before + i + 1] = static_cast<T>(pair.odd);
    }
  });
  done += paired;
  if (done < count) out[done] = static_cast<T>(normal(key, first_index + done));
}

}  // namespace

uint64_t fold_key(uint64_t key, std::string_view text) noexcept {
  key = fold_key(key, uint64_t{text.size()});
  for (size_t at = 0; at < text.size(); at += 8) {
    uint64_t data = 0;
    for (size_t i = at; i < std::min(at + 8, text.size()); ++i) {
      data |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * (i - at));
    }
    key = fold_key(key, data);
  }
  return key;
}

double normal(uint64_t key, uint64_t index) noexcept {
  const auto block = random_block(key, index / 4);
  const size_t first = index % 4 / 2 * 2;
  const NormalPair pair = box_muller(block[first], block[first + 1]);
  return index % 2 == 0 ? pair.even : pair.odd;
}

void fill_uniform(float* out, size_t count, uint64_t key, uint64_t first_index) noexcept {
  for_words(count, key, first_index, [&](const uint32_t* words, size_t n, size_t done) {
    for (size_t i = 0; i < n; ++i) out[done + i] = uniform_float(words[i]);
  });
}

void fill_uniform(double* out, size_t count, uint64_t key, uint64_t first_index) noexcept {
  for_words(2 * count, key, 2 * first_index, [&](const uint32_t* words, size_t n, size_t done) {
    for (size_t i = 0; i < n; i += 2) out[(done + i) / 2] = uniform_double(words[i], words[i + 1]);
  });
}

void fill_normal(float* out, size_t count, uint64_t key, uint64_t first_index) noexcept {
  fill_normal_pairs(out, count, key, first_index);
}

void fill_normal(double* out, size_t count, uint64_t key, uint64_t first_index) noexcept {
  fill_normal_pairs(out, count, key, first_index);
}

void fill_bernoulli(bool* out, size_t count, double probability, uint64_t key,
                    uint64_t first_index) noexcept {
  for_words(count, key, first_index, [&](const uint32_t* words, size_t n, size_t done) {
    for (size_t i = 0; i < n; ++i) out[done + i] = bernoulli(words[i], probability);
  });
}

Permutation::Permutation(uint64_t n, uint64_t key) noexcept : n_(n) {
  // Rounds mix a handful of elements poorly (some orders would come far more often than others),
  // so few elements are walked to inside a domain of 2^8.
  constexpr int kFewestBits = 8;
  const int bits = n < 2 ? 0 : std::max(kFewestBits, static_cast<int>(std::bit_width(n - 1)));
  low_bits_ = (bits + 1) / 2;
  low_mask_ = (uint64_t{1} << low_bits_) - 1;
  high_mask_ = (uint64_t{1} << (bits - low_bits_)) - 1;
  for (size_t i = 0; i < kRounds; ++i) {
    rounds_[i] = {fold_key(key, 2 * i), fold_key(key, 2 * i + 1) | 1};
  }
}

inline uint64_t Permutation::step(uint64_t i) const noexcept {
  uint64_t low = i & low_mask_;
  uint64_t high = i >> low_bits_;
  for (size_t r = 0; r < kRounds; r += 2) {
    low ^= rounds_[r](high) & low_mask_;
    high ^= rounds_[r + 1](low) & high_mask_;
  }
  return (high << low_bits_) | low;
}

inline void Permutation::steps(uint64_t begin, uint64_t count, uint64_t* images) const noexcept {
  for (uint64_t i = 0; i < count; ++i) images[i] = step(begin + i);
}

// The same code for processors that multiply vectors of 64-bit integers, which the baseline lacks.
#if defined(__x86_64__)
__attribute__((target("avx512f,avx512dq,avx512vl"), flatten)) void Permutation::wide_steps(
    uint64_t begin, uint64_t count, uint64_t* images) const noexcept {
  steps(begin, count, images);
}
#else
void Permutation::wide_steps(uint64_t begin, uint64_t count, uint64_t* images) const noexcept {
  steps(begin, count, images);
}
#endif

uint64_t Permutation::operator[](uint64_t i) const noexcept {
  do i = step(i);
  while (i >= n_);
  return i;
}

// The first steps of many elements have no branch between them; few elements need another step.
std::vector<uint32_t> Permutation::written_out() const {
  constexpr uint64_t kTogether = 256;
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  constexpr bool wide = false;
#endif
  std::vector<uint32_t> order(static_cast<size_t>(n_));
  uint64_t images[kTogether];
  for (uint64_t begin = 0; begin < n_; begin += kTogether) {
    const uint64_t count = std::min(kTogether, n_ - begin);
    wide ? wide_steps(begin, count, images) : steps(begin, count, images);
    for (uint64_t i = 0; i < count; ++i) {
      order[begin + i] = static_cast<uint32_t>(images[i] < n_ ? images[i] : (*this)[images[i]]);
    }
  }
  return order;
}

std::vector<uint32_t> shuffled_indices(uint32_t n, uint64_t key) {
  return Permutation(n, key).written_out();
}

}  // namespace keel
