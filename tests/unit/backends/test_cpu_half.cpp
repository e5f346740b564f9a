// 16-bit floats on the cpu backend: its casts, whatever the place of an element, and products whose
// operands are widened and whose results are rounded in shares.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/vector/instructions.h"
#include "keel/core/base/parallel_for.h"
#include "keel/ops/matmul.h"

#include "ops_for_tests.h"

namespace keel {
namespace {

template <class To, class From>
std::vector<To> cast_all(const std::vector<From>& from, size_t begin = 0) {
  std::vector<To> to(from.size() - begin);
  VectorCall call;
  call.src[0] = from.data() + begin;
  call.dst = to.data();
  call.n = to.size();
  vector::find_instruction("cast", dtype_of<From>, dtype_of<To>)(call);
  return to;
}

// The magnitude that IEEE 754 gives to a finite pattern without its sign.
double magnitude_of(uint32_t bits, int mantissa_bits, int bias) {
  const int exponent = static_cast<int>(bits >> mantissa_bits);
  const auto mantissa = static_cast<double>(bits & ((1u << mantissa_bits) - 1));
  const double leading = exponent == 0 ? 0.0 : std::ldexp(1.0, mantissa_bits);
  return std::ldexp(leading + mantissa, std::max(exponent, 1) - bias - mantissa_bits);
}

// Every 16-bit float, and the floats at and beside the middle between it and the next one.
template <class H>
void check_casts(int mantissa_bits, int bias, uint32_t infinity_bits) {
  std::vector<H> low, rounded;
  std::vector<float> wide, beside;
  for (uint32_t bits = 0; bits < infinity_bits; ++bits) {
    const double value = magnitude_of(bits, mantissa_bits, bias);
    const double next = magnitude_of(bits + 1, mantissa_bits, bias);
    const auto middle = static_cast<float>((value + next) / 2);
    if (static_cast<double>(middle) != (value + next) / 2) continue;  // below what floats hold
    for (const uint32_t sign : {0u, 0x8000u}) {
      const float s = sign == 0 ? 1.0f : -1.0f;
      const auto add = [&](float x, uint32_t to) {
        beside.push_back(s * x);
        rounded.push_back(H::from_bits(static_cast<uint16_t>(sign | to)));
      };
      low.push_back(H::from_bits(static_cast<uint16_t>(sign | bits)));
      wide.push_back(s * static_cast<float>(value));
      add(static_cast<float>(value), bits);
      add(middle, bits % 2 == 0 ? bits : bits + 1);
      add(std::nextafter(middle, 0.0f), bits);
      add(std::nextafter(middle, std::numeric_limits<float>::infinity()), bits + 1);
    }
  }
  size_t wrong = low.size() > 60000 ? 0 : 1;
  const std::vector<float> widened = cast_all<float>(low);
  for (size_t i = 0; i < low.size(); ++i) {
    wrong += std::bit_cast<uint32_t>(widened[i]) != std::bit_cast<uint32_t>(wide[i]);
  }
  const std::vector<H> narrowed = cast_all<H>(beside);
  for (size_t i = 0; i < beside.size(); ++i) wrong += narrowed[i].bits != rounded[i].bits;
  CHECK(wrong == 0);
}

template <class H>
void check_half_limits() {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Twenty, so that some lie in a vector and some behind it.
  for (const float x : {infinity, -infinity, nan, -nan}) {
    for (const H low : cast_all<H>(std::vector<float>(20, x))) {
      const float back = cast_all<float>(std::vector<H>{low})[0];
      CHECK((std::isnan(x) ? std::isnan(back) : back == x));
      CHECK(std::signbit(back) == std::signbit(x));
    }
  }
}

template <class H>
void check_half_places() {
  std::vector<float> x;
  uint32_t seed = 7;
  for (int i = 0; i < 4099; ++i) {  // any bits: subnormals and what is no number among them
    seed = seed * 1664525 + 1013904223;
    x.push_back(std::bit_cast<float>(seed ^ (seed << 13)));
  }
  const std::vector<H> all = cast_all<H>(x);
  const std::vector<float> back = cast_all<float>(all);
  size_t wrong = 0;
  for (size_t begin = 0; begin < 70; ++begin) {
    const std::vector<H> rest = cast_all<H>(x, begin);
    const std::vector<float> rest_back = cast_all<float>(all, begin);
    for (size_t i = 0; i < rest.size(); ++i) {
      wrong += rest[i].bits != all[begin + i].bits;
      wrong += std::bit_cast<uint32_t>(rest_back[i]) != std::bit_cast<uint32_t>(back[begin + i]);
    }
  }
  for (size_t i = 0; i < x.size(); ++i) {
    wrong += cast_all<H>(std::vector<float>{x[i]})[0].bits != all[i].bits;
  }
  CHECK(wrong == 0);
}

// Small integers: every sum is exact, in whatever order.
Tensor integers(DType dtype, const Shape& shape, uint32_t seed) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.set(i, static_cast<int>((seed = seed * 1664525 + 1013904223) >> 24) % 17 - 8);
  }
  return t;
}

Tensor product_on(const char* where, const Tensor& a, const Tensor& b, MatmulAttributes options) {
  Graph g;
  const Value x = g.input("x", a.dtype(), a.shape());
  const Value y = g.input("y", b.dtype(), b.shape());
  Session session(g, device(where));
  return session.run({matmul(x, y, options)}, {{x, a}, {y, b}})[0];
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("cpu half: casts round to nearest even on both sides of every tie") {
  check_casts<Half>(10, 15, 0x7c00);
  check_casts<BFloat16>(7, 127, 0x7f80);
}

TEST_CASE("cpu half: casts keep infinities and what is no number") {
  check_half_limits<Half>();
  check_half_limits<BFloat16>();
}

TEST_CASE("cpu half: casts give the same bits in any place and alone") {
  check_half_places<Half>();
  check_half_places<BFloat16>();
}

TEST_CASE("cpu half: products of operands that are widened in shares") {
  struct Shapes {
    Shape a, b;
    MatmulAttributes options;
  };
  // The operands and the results have no whole number of shares; some have but one.
  const Shapes shapes[] = {{{331, 307}, {307, 333}, {}},
                           {{331, 307}, {307, 333}, {.wide = true}},
                           {{307, 331}, {333, 307}, {.transpose_a = true, .transpose_b = true}},
                           {{3, 101, 257}, {257, 211}, {.wide = true}},
                           {{1, 70001}, {70001, 1}, {.wide = true}},
                           {{3, 2}, {2, 1}, {}},
                           {{0, 300}, {300, 300}, {}}};
  for (const DType low : {f16, bf16}) {
    for (const Shapes& s : shapes) {
      CAPTURE(name_of(low));
      CAPTURE(to_string(s.a));
      const Tensor a = integers(low, s.a, 1), b = integers(low, s.b, 2);
      const Tensor expected = product_on("ref:0", a, b, s.options);
      for (const int n : {1, 2, 3}) {
        const ComputeThreads threads(n);
        CHECK(bit_equal(product_on("cpu:0", a, b, s.options), expected));
      }
    }
  }
}

TEST_CASE("cpu half: what f16 cannot hold becomes an infinity unless the product is wide") {
  Tensor a = Tensor::full(f16, {300, 300}, 256), b = Tensor::full(f16, {300, 300}, 1);
  a.set(299 * 300, std::numeric_limits<double>::quiet_NaN());
  const Tensor narrow = product_on("cpu:0", a, b, {}),
               wide = product_on("cpu:0", a, b, {.wide = true});
  for (const int64_t i : {int64_t{0}, int64_t{298 * 300 + 299}}) {
    CHECK(narrow.at(i) == std::numeric_limits<double>::infinity());
    CHECK(wide.at(i) == 76800.0);
  }
  CHECK(std::isnan(narrow.at(299 * 300)));
  CHECK(std::isnan(wide.at(300 * 300 - 1)));
}

TEST_SUITE_END();

}  // namespace keel
