// Random numbers: published vectors, addressing, distributions and permutations.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/random.h"

namespace {

using keel::Permutation;

// P(chi-square with `freedom` degrees > limit) is about 1e-6 (Wilson and Hilferty).
double chi_square_limit(double freedom) {
  const double z = 4.75;
  const double a = 2.0 / (9.0 * freedom);
  return freedom * std::pow(1.0 - a + z * std::sqrt(a), 3.0);
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("philox matches the published vectors of Random123") {
  using Words = std::array<uint32_t, 4>;
  CHECK(keel::philox4x32({0, 0, 0, 0}, {0, 0}) ==
        Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t ones = 0xffffffff;
  CHECK(keel::philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(keel::philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                         {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("word i of a stream is lane i mod 4 of block i div 4") {
  const auto first = keel::philox4x32({0, 0, 0, 0}, {7, 9});
  const auto far = keel::philox4x32({5, 1, 0, 0}, {7, 9});
  const uint64_t key = 7 + (uint64_t{9} << 32);
  for (uint64_t i = 0; i < 4; ++i) {
    CHECK(keel::random_bits(key, i) == first[i]);
    CHECK(keel::random_bits(key, 4 * ((uint64_t{1} << 32) + 5) + i) == far[i]);
  }
}

TEST_CASE("bulk random functions give the same elements wherever a piece begins") {
  const uint64_t key = 0x123456789abcdef0;
  const uint64_t starts[] = {0, 1, 2, 3, 31, 32, 33, 1000, (uint64_t{1} << 34) - 5};
  for (const uint64_t start : starts) {
    for (const size_t count : {0u, 1u, 2u, 3u, 7u, 31u, 32u, 33u, 64u, 101u}) {
      std::vector<float> uniform(count);
      std::vector<float> normal(count);
      std::vector<double> uniform64(count);
      std::vector<double> normal64(count);
      const auto coin = std::make_unique<bool[]>(count + 1);
      keel::fill_uniform(uniform.data(), count, key, start);
      keel::fill_uniform(uniform64.data(), count, key, start);
      keel::fill_normal(normal.data(), count, key, start);
      keel::fill_normal(normal64.data(), count, key, start);
      keel::fill_bernoulli(coin.get(), count, 0.3, key, start);
      bool same = true;
      for (size_t i = 0; i < count; ++i) {
        const uint64_t at = start + i;
        const uint32_t word = keel::random_bits(key, at);
        same = same && uniform[i] == static_cast<float>(word / 256) / 16777216.0f;
        const double high = keel::random_bits(key, 2 * at);
        const double low = keel::random_bits(key, 2 * at + 1);
        same = same &&
               uniform64[i] == (high * 2097152.0 + std::floor(low / 2048.0)) / 9007199254740992.0;
        same = same && normal64[i] == keel::normal(key, at);
        same = same && normal[i] == static_cast<float>(keel::normal(key, at));
        same = same && coin[i] == (word / 4294967296.0 < 0.3);
      }
      CHECK_MESSAGE(same, "start " << start << " count " << count);
    }
  }
}

TEST_CASE("a normal pair is the cosine and sine of Box-Muller on its two words") {
  for (uint64_t index = 0; index < 2000; index += 2) {
    const long double u = (keel::random_bits(3, index) + 0.5L) / 4294967296.0L;
    const long double turn = keel::random_bits(3, index + 1) / 4294967296.0L;
    const long double radius = std::sqrt(-2.0L * std::log(u));
    const long double angle = 2.0L * 3.14159265358979323846L * turn;
    CHECK(keel::normal(3, index) ==
          doctest::Approx(static_cast<double>(radius * std::cos(angle))).epsilon(1e-14));
    CHECK(keel::normal(3, index + 1) ==
          doctest::Approx(static_cast<double>(radius * std::sin(angle))).epsilon(1e-14));
  }
}

TEST_CASE("uniform and normal numbers have their moments and bounds") {
  const size_t n = 200000;
  std::vector<float> uniform(n);
  std::vector<double> normal(n);
  keel::fill_uniform(uniform.data(), n, 17, 0);
  keel::fill_normal(normal.data(), n, 17, 0);
  double mean = 0;
  double moments[5] = {};
  for (size_t i = 0; i < n; ++i) {
    mean += uniform[i];
    for (int k = 1; k < 5; ++k) moments[k] += std::pow(normal[i], k);
  }
  const double count = static_cast<double>(n);
  CHECK(*std::min_element(uniform.begin(), uniform.end()) >= 0.0f);
  CHECK(*std::max_element(uniform.begin(), uniform.end()) < 1.0f);
  CHECK(std::fabs(mean / count - 0.5) < 5 * std::sqrt(1.0 / 12 / count));
  CHECK(std::fabs(moments[1] / count) < 5 * std::sqrt(1 / count));
  CHECK(std::fabs(moments[2] / count - 1) < 5 * std::sqrt(2 / count));
  CHECK(std::fabs(moments[3] / count) < 5 * std::sqrt(15 / count));
  CHECK(std::fabs(moments[4] / count - 3) < 5 * std::sqrt(96 / count));
  CHECK(keel::uniform_float(0) == 0.0f);
  CHECK(keel::uniform_float(0xffffffff) == 1.0f - 0x1p-24f);
  CHECK(keel::uniform_double(0xffffffff, 0xffffffff) == 1.0 - 0x1p-53);
}

TEST_CASE("bernoulli is certain at 0 and 1 and never true for NaN") {
  for (const uint32_t bits : {0u, 1u, 0x80000000u, 0xffffffffu}) {
    CHECK_FALSE(keel::bernoulli(bits, 0.0));
    CHECK_FALSE(keel::bernoulli(bits, -1.0));
    CHECK_FALSE(keel::bernoulli(bits, std::nan("")));
    CHECK(keel::bernoulli(bits, 1.0));
  }
}

TEST_CASE("folded keys do not collide and depend on order and text") {
  std::set<uint64_t> keys;
  for (uint64_t key = 0; key < 64; ++key) {
    for (uint64_t data = 0; data < 64; ++data) {
      keys.insert(keel::fold_key(key, data));
      keys.insert(keel::fold_key(key, data << 32));
    }
  }
  CHECK(keys.size() == 64 * (64 + 63));  // data 0 twice
  CHECK(keel::fold_key(keel::fold_key(1, 2), 3) != keel::fold_key(keel::fold_key(1, 3), 2));
  using namespace std::string_view_literals;
  std::set<uint64_t> names;
  for (const auto name : {""sv, "\0"sv, "\0\0"sv, "w"sv, "b"sv, "w1"sv, "layer/1/w"sv,
                          "layer/1/b"sv, "12345678"sv, "123456781"sv, "w\0"sv}) {
    names.insert(keel::fold_key(0, name));
  }
  CHECK(names.size() == 11);
}

TEST_CASE("a bit of key or data flips about half of a folded key") {
  double flipped = 0;
  for (int bit = 0; bit < 64; ++bit) {
    for (uint64_t i = 0; i < 50; ++i) {
      const uint64_t base = keel::fold_key(i, 1000 + i);
      flipped += __builtin_popcountll(base ^ keel::fold_key(i ^ (uint64_t{1} << bit), 1000 + i));
      flipped += __builtin_popcountll(base ^ keel::fold_key(i, (1000 + i) ^ (uint64_t{1} << bit)));
    }
  }
  const double draws = 64 * 50 * 2 * 64;
  CHECK(std::fabs(flipped / draws - 0.5) < 5 * 0.5 / std::sqrt(draws));
}

TEST_CASE("a permutation is a bijection for every size") {
  for (uint64_t n = 0; n <= 300; ++n) {
    const Permutation permutation(n, 5 * n + 1);
    std::vector<char> seen(n, 0);
    bool inside = true;
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t to = permutation[i];
      inside = inside && to < n;
      if (to < n) seen[to] = 1;
    }
    CHECK(inside);
    CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(n));
  }
  auto shuffled = keel::shuffled_indices(60000, 12);
  const Permutation permutation(60000, 12);
  for (const uint32_t i : {0u, 1u, 30000u, 59999u}) CHECK(shuffled[i] == permutation[i]);
  std::sort(shuffled.begin(), shuffled.end());
  std::vector<uint32_t> identity(60000);
  std::iota(identity.begin(), identity.end(), 0u);
  CHECK(shuffled == identity);
}

TEST_CASE("a permutation of a huge range stays inside and does not repeat") {
  for (const uint64_t n : {(uint64_t{1} << 32) + 1, (uint64_t{1} << 63) + 12345, ~uint64_t{0}}) {
    const Permutation permutation(n, 3);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < 2000; ++i) {
      seen.insert(permutation[i]);
      seen.insert(permutation[n - 1 - i]);
    }
    CHECK(seen.size() == 4000);
    CHECK(*seen.rbegin() < n);
  }
}

TEST_CASE("every order of a few elements comes equally often") {
  for (const uint64_t n : {2u, 3u, 4u, 5u, 6u}) {
    std::map<std::vector<uint64_t>, int> counts;
    double orders = 1;
    for (uint64_t i = 2; i <= n; ++i) orders *= static_cast<double>(i);
    const double draws = orders * 200;
    for (uint64_t key = 0; key < static_cast<uint64_t>(draws); ++key) {
      const Permutation permutation(n, key);
      std::vector<uint64_t> order;
      for (uint64_t i = 0; i < n; ++i) order.push_back(permutation[i]);
      ++counts[order];
    }
    double chi_square = 200.0 * (orders - static_cast<double>(counts.size()));
    for (const auto& [order, count] : counts)
      chi_square += (count - 200.0) * (count - 200.0) / 200.0;
    CHECK_MESSAGE(chi_square < chi_square_limit(orders - 1),
                  "n " << n << " chi-square " << chi_square);
  }
}

TEST_CASE("positions and steps of a shuffle look uniform") {
  const uint32_t n = 60000;
  const size_t cells = 100;
  for (uint64_t key = 0; key < 20; ++key) {
    const auto order = keel::shuffled_indices(n, key);
    std::vector<double> early(cells, 0);
    std::vector<double> steps(cells, 0);
    for (size_t i = 0; i + 1 < n; ++i) {
      if (i < n / 2) early[order[i] * cells / n] += 1;
      steps[(order[i + 1] + n - order[i]) % n * cells / n] += 1;
    }
    double early_chi = 0;
    double step_chi = 0;
    for (size_t c = 0; c < cells; ++c) {
      const double half = n / 2.0 / static_cast<double>(cells);
      early_chi += (early[c] - half) * (early[c] - half) / half;
      step_chi += (steps[c] - 2 * half) * (steps[c] - 2 * half) / (2 * half);
    }
    CHECK_MESSAGE(early_chi < chi_square_limit(99), "key " << key << " early " << early_chi);
    CHECK_MESSAGE(step_chi < chi_square_limit(99), "key " << key << " steps " << step_chi);
  }
}

TEST_CASE("an order that is written out is that of the elements one by one") {
  for (const uint32_t n : {0u, 1u, 2u, 3u, 255u, 256u, 257u, 511u, 4096u, 60000u}) {
    CAPTURE(n);
    const keel::Permutation one_by_one(n, 77 + n);
    const auto order = keel::shuffled_indices(n, 77 + n);
    REQUIRE(order.size() == n);
    size_t equal = 0;
    for (uint32_t i = 0; i < n; ++i) equal += order[i] == one_by_one[i];
    CHECK(equal == n);
  }
}

TEST_SUITE_END();
