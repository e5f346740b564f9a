// Comparisons with the references took whole numbers beyond 2^53 that differ for equal,
// zeros of either sign where equal bits are asked for, and beside an infinite scale any number,
// even the infinity of the other sign.
#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "keel/ops/conformance/tolerance.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("conformance");

namespace {

using namespace keel;
using keel_test::contains;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// compare() of one number in a float dtype, with a bound of 2 eps times the scale.
std::string compare_scaled(DType dtype, double got, double expected, double scale) {
  return conformance::compare(Tensor::full(dtype, {1}, got), Tensor::full(dtype, {1}, expected),
                              {.k = 2}, Tensor::full(f64, {1}, scale));
}
// The same where nothing may differ.
std::string compare_exactly(DType dtype, double got, double expected) {
  return conformance::compare(Tensor::full(dtype, {1}, got), Tensor::full(dtype, {1}, expected), {},
                              {});
}

}  // namespace

TEST_CASE("whole numbers beyond 2^53 are compared as what they are") {
  constexpr int64_t kBeyond = int64_t{1} << 53;
  const Tensor numbers = Tensor::of<int64_t>({3}, {7, kBeyond, -kBeyond});
  CHECK(conformance::compare(numbers, numbers, {}, {}).empty());
  const std::string next =
      conformance::compare(Tensor::of<int64_t>({3}, {7, kBeyond + 1, -kBeyond}), numbers, {}, {});
  CHECK_MESSAGE(contains(next,
                         "1 of 3 elements of i64[3] differ; the first, number 1: got "
                         "9007199254740993, expected 9007199254740992 within 0 ulps"),
                next);
  for (const DType dtype : {i64, i32, u8, boolean}) {
    CAPTURE(name_of(dtype));
    CHECK(compare_exactly(dtype, 1, 1).empty());
    CHECK(contains(compare_exactly(dtype, 1, 0), "got 1, expected 0"));
  }
}

TEST_CASE("a bound of zero asks for the sign of a zero and another bound does not") {
  for (const DType dtype : {f64, f32, f16, bf16}) {
    CAPTURE(name_of(dtype));
    CHECK(contains(compare_exactly(dtype, -0.0, 0.0), "got -0, expected 0"));
    CHECK(contains(compare_exactly(dtype, 0.0, -0.0), "got 0, expected -0"));
    CHECK(compare_exactly(dtype, -0.0, -0.0).empty());
    CHECK(compare_scaled(dtype, -0.0, 0.0, 0).empty());
  }
}

TEST_CASE("an infinite scale lets no infinity pass for another number") {
  for (const DType dtype : {f64, f32, f16, bf16}) {
    CAPTURE(name_of(dtype));
    CHECK(compare_scaled(dtype, kInfinite, kInfinite, kInfinite).empty());
    CHECK(!compare_scaled(dtype, -kInfinite, kInfinite, kInfinite).empty());
    CHECK(!compare_scaled(dtype, 3, kInfinite, kInfinite).empty());
    CHECK(!compare_scaled(dtype, std::nan(""), kInfinite, kInfinite).empty());
    CHECK(!compare_scaled(dtype, kInfinite, 3, kInfinite).empty());
    CHECK(!compare_scaled(dtype, std::nan(""), 3, kInfinite).empty());
    CHECK(compare_scaled(dtype, std::nan(""), std::nan(""), kInfinite).empty());
    // How far apart finite numbers are nothing is known of.
    CHECK(compare_scaled(dtype, 4, 3, kInfinite).empty());
    CHECK(!compare_scaled(dtype, 4, 3, 1).empty());
  }
}

TEST_SUITE_END();
