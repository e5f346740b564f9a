// zeros_like, ones_like and full_like: expected values by hand.
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

TEST_CASE("values of one number have the shape of another whether it is known or not") {
  Graph g;
  const Value known = g.constant(counting({2, 3}));
  CHECK(elements(full_like(known, 2.5)) == Doubles(6, 2.5));
  CHECK(full_like(known, 2.5).shape() == Shape{2, 3});
  const Value open = g.input("open", f32, {-1, 2});
  CHECK(elements(zeros_like(open), {{open, counting({3, 2})}}) == Doubles(6, 0));
  CHECK(elements(ones_like(open), {{open, counting({1, 2})}}) == Doubles{1, 1});
  CHECK(elements(ones_like(open), {{open, Tensor(f32, {0, 2})}}).empty());
  const Value scalar = g.constant(Tensor::scalar(7.0f));
  CHECK(elements(full_like(scalar, -1)) == Doubles{-1});
}

TEST_CASE("values of one number do not ask what the other holds") {
  Graph g;
  const Value x = g.input("x", f32, {-1});
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor far = Tensor::of<float>({3}, {inf, -inf, std::numeric_limits<float>::quiet_NaN()});
  CHECK(elements(ones_like(x), {{x, far}}) == Doubles{1, 1, 1});
  const Value y = sum(mul(x, 3.0f) + full_like(x, 5));
  CHECK(elements(gradients(y, {x})[0], {{x, counting({2})}}) == Doubles{3, 3});
}

TEST_CASE("values of one number have the dtype of the other if it holds them") {
  Graph g;
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64}) {
    CAPTURE(name_of(dtype));
    const Value x = g.input(std::string("x") + name_of(dtype), dtype, {-1});
    CHECK(full_like(x, 1).dtype() == dtype);
    CHECK(elements(ones_like(x), {{x, Tensor(dtype, {2})}}) == Doubles{1, 1});
    CHECK(elements(zeros_like(x), {{x, Tensor::full(dtype, {2}, 1)}}) == Doubles{0, 0});
  }
  const Value bytes = g.input("bytes", u8, {4});
  for (const double number : {-1.0, 256.0, 0.5}) {
    CAPTURE(number);
    const std::string refused = error_of([&] { full_like(bytes, number); });
    CHECK(contains(refused, "full_like"));
    CHECK(contains(refused, __FILE__));
  }
  CHECK(contains(error_of([&] { zeros_like(Value()); }), "zeros_like: x"));
}

TEST_CASE("zeros of a type name themselves and their line") {
  Graph g;
  const Value zeros = zeros_of(g, {f32, {3}});
  CHECK(contains(zeros.node().site().file, "test_filled.cpp"));
  const std::string refused = error_of([&] { zeros_of(g, {f32, {-1, 2}}); });
  CHECK(contains(refused, "zeros_of: type"));
  CHECK(contains(refused, "zeros_like"));
  CHECK(contains(refused, __FILE__));
}

}  // namespace

TEST_SUITE_END();
