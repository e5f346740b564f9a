// Numbers that a dtype does not hold were taken all the same: unsigned literals above the signed
// range wrapped, large fractions saturated, and iota counted further than its float dtype can.
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

// The error of adding the literal to a tensor of the dtype; empty where it is taken.
template <class T>
std::string literal_refusal(DType dtype, T literal) {
  Graph g;
  const Value x = g.input("x", dtype, {1});
  return error_of([&] { static_cast<void>(x + literal); });
}

// The literal itself, as a tensor of the dtype holds it.
template <class T>
double taken(DType dtype, T literal) {
  Graph g;
  const Value x = g.input("x", dtype, {1});
  Session session(g, device("ref"));
  return session.run({x + literal}, {{x, Tensor(dtype, {1})}})[0].at(0);
}

template <class T>
void check_literal_refused(DType dtype, T literal, const std::string& text) {
  const std::string error = literal_refusal(dtype, literal);
  CAPTURE(std::string(name_of(dtype)));
  CAPTURE(error);
  CHECK(contains(error, "add: literal"));
  CHECK(contains(error, "a number that fits " + std::string(name_of(dtype))));
  CHECK(contains(error, "got " + text));
  CHECK(contains(error, "test_literal_beyond_its_dtype.cpp:"));
}

// The largest and the smallest of an integer dtype are taken, what is beyond is not, whatever the
// literal's own type.
template <class T>
void check_limits(DType dtype) {
  using Limits = std::numeric_limits<T>;
  const auto largest = static_cast<uint64_t>(Limits::max());
  const auto smallest = static_cast<int64_t>(Limits::min());
  CHECK(taken(dtype, largest) == static_cast<double>(largest));
  CHECK(taken(dtype, smallest) == static_cast<double>(smallest));
  check_literal_refused(dtype, largest + 1, std::to_string(largest + 1));
  check_literal_refused(dtype, std::numeric_limits<uint64_t>::max(), "18446744073709551615");
  const double above = std::ldexp(1.0, Limits::digits);
  CHECK(taken(dtype, above / 2) == above / 2);
  check_literal_refused(dtype, above, "");
  check_literal_refused(dtype, static_cast<float>(above), "");
  check_literal_refused(dtype, 1e300, "1e+300");
  check_literal_refused(dtype, 1e30f, "");
  check_literal_refused(dtype, std::numeric_limits<double>::infinity(), "inf");
  check_literal_refused(dtype, std::numeric_limits<double>::quiet_NaN(), "nan");
  check_literal_refused(dtype, 0.5, "0.5");
  if constexpr (Limits::digits < 63) {
    check_literal_refused(dtype, smallest - 1, std::to_string(smallest - 1));
    check_literal_refused(dtype, std::numeric_limits<int64_t>::max(), "9223372036854775807");
    check_literal_refused(dtype, std::numeric_limits<uint32_t>::max(), "4294967295");
  }
  check_literal_refused(dtype, -1e30, "-1e+30");
}

// No dtype holds the range of these, and a conversion to double would make infinities of some.
static_assert(!std::is_convertible_v<long double, Operand>);

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a literal that its integer dtype does not hold is an error") {
  check_limits<int64_t>(i64);
  check_limits<int32_t>(i32);
  check_limits<uint8_t>(u8);
  check_literal_refused(u8, int8_t{-1}, "-1");
  check_literal_refused(u8, uint16_t{256}, "256");
  CHECK(taken(i64, std::numeric_limits<uint32_t>::max()) == 4294967295.0);
}

TEST_CASE("a literal that its float dtype does not hold is an error") {
  check_literal_refused(f16, 65520, "65520");
  check_literal_refused(f16, std::numeric_limits<uint64_t>::max(), "18446744073709551615");
  check_literal_refused(f32, 1e39, "1e+39");
  check_literal_refused(bf16, 3.4e38, "3.4e+38");
  CHECK(taken(f16, 65504u) == 65504);
  // Unsigned numbers above the signed range are themselves.
  CHECK(taken(f32, std::numeric_limits<uint64_t>::max()) == 18446744073709551616.0);
  CHECK(taken(f16, -std::numeric_limits<double>::infinity()) ==
        -std::numeric_limits<double>::infinity());
}

TEST_CASE("pad refuses a value that its dtype does not hold") {
  Graph g;
  const Value half = g.input("half", f16, {2}), whole = g.input("whole", i64, {2});
  CHECK(contains(error_of([&] { pad(half, {1}, {0}, 1e6); }), "a number that fits f16"));
  CHECK(contains(error_of([&] { pad(whole, {1}, {0}, 0x1p63); }), "a number that fits i64"));
  CHECK(error_of([&] { pad(half, {1}, {0}, -INFINITY); }).empty());
}

TEST_CASE("iota refuses a float dtype that does not hold each of its numbers") {
  Graph g;
  const std::string error = error_of([&] { iota(g, f16, {5000}); });
  CHECK(contains(error, "every integer up to 4999"));
  CHECK(contains(error, "f16"));
  CHECK(contains(error, "2048"));
  CHECK(contains(error, "test_literal_beyond_its_dtype.cpp:"));
  CHECK(contains(error_of([&] { iota(g, f16, {2050}); }), "2049"));
  CHECK(contains(error_of([&] { iota(g, bf16, {258, 2}); }), "257"));
  CHECK(contains(error_of([&] { iota(g, u8, {300}); }), "299"));
  CHECK(contains(error_of([&] { iota(g, f32, {(int64_t{1} << 24) + 2}); }), "16777217"));
  Session session(g, device("cpu"));
  const Tensor halves = session.run({iota(g, f16, {2049})})[0];
  const Tensor brains = session.run({iota(g, bf16, {2, 257}, 1)})[0];
  for (int64_t i = 0; i < 2049; ++i) CHECK(halves.at(i) == static_cast<double>(i));
  for (int64_t i = 0; i < 257; ++i) CHECK(brains.at(i) == static_cast<double>(i));
}

TEST_CASE("a scale of attention that the dtype of the scores does not hold is an error") {
  // 1e39 became infinite in f32, and 0 * infinity NaN.
  const auto refusal = [](DType dtype, double scale) {
    Graph g;
    const Value q = g.input("q", dtype, {2, 2});
    return error_of([&] { attention(q, q, q, {.scale = scale}); });
  };
  for (const DType dtype : {f32, f16, bf16}) {
    const std::string error = refusal(dtype, 1e39);
    CAPTURE(error);
    CHECK(contains(error, "attention: scale: expected a finite number that fits f32, got 1e+39"));
    CHECK(contains(error, "test_literal_beyond_its_dtype.cpp:"));
    CHECK(refusal(dtype, 1e38).empty());
  }
  CHECK(refusal(f64, 1e39).empty());
  CHECK(contains(refusal(f64, std::numeric_limits<double>::infinity()), "fits f64, got inf"));
}

TEST_SUITE_END();

}  // namespace keel
