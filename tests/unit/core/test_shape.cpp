// Shapes: sizes, broadcasting, and hostile dimensions, which must give errors before anything is
// allocated.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/checked.h"
#include "keel/core/base/shape.h"
#include "keel/core/tensor/tensor.h"

namespace {

using keel::Error;
using keel::Shape;

// The number of elements by 128-bit arithmetic, or -1 where they are not fewer than 2^63. Zeros do
// not excuse an overflow.
__int128 exact_product(const std::vector<int64_t>& dims) {
  const __int128 limit = static_cast<__int128>(1) << 63;
  __int128 product = 1;
  bool empty = false;
  for (const int64_t dim : dims) {
    if (dim == 0)
      empty = true;
    else
      product *= dim;
    if (product >= limit) return -1;
  }
  return empty ? 0 : product;
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("a shape counts prints and strides") {
  const Shape scalar;
  CHECK(scalar.rank() == 0);
  CHECK(scalar.num_elements() == 1);
  CHECK(to_string(scalar) == "[]");
  const Shape shape{2, 3, 4};
  CHECK(shape.num_elements() == 24);
  CHECK(shape.num_bytes(keel::f64) == 192);
  CHECK(shape.num_bytes(keel::bf16) == 48);
  CHECK(shape.strides()[0] == 12);
  CHECK(shape.strides()[1] == 4);
  CHECK(shape.strides()[2] == 1);
  CHECK(shape.back() == 4);
  CHECK(to_string(Shape{128, -1}) == "[128, ?]");
  CHECK(to_string(keel::Type{keel::f32, {128, 784}}) == "f32[128, 784]");
  CHECK(to_string(keel::Type{keel::boolean, {}}) == "bool[]");
}

TEST_CASE("shapes are equal when rank and dimensions are") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK(Shape{2, 3} != Shape{3, 2});
  CHECK(Shape{2} != Shape{2, 1});
  CHECK(Shape{} == Shape{});
}

TEST_CASE("dimensions are replaced removed and inserted") {
  const Shape shape{2, 3};
  CHECK(shape.with_dim(1, 5) == Shape{2, 5});
  CHECK(shape.without_dim(0) == Shape{3});
  CHECK(shape.with_inserted(0, 7) == Shape{7, 2, 3});
  CHECK(shape.with_inserted(2, 7) == Shape{2, 3, 7});
  CHECK_THROWS_AS(shape.with_dim(2, 5), Error);
  CHECK_THROWS_AS(shape.without_dim(2), Error);
  CHECK_THROWS_AS(shape.with_inserted(3, 1), Error);
  CHECK_THROWS_AS(Shape{}.without_dim(0), Error);
  CHECK_THROWS_AS(shape.with_dim(0, -2), Error);
}

TEST_CASE("unknown dimensions have no size") {
  const Shape shape{-1, 4};
  CHECK_FALSE(shape.known());
  CHECK_THROWS_AS(shape.num_elements(), Error);
  CHECK_THROWS_AS(keel::Tensor(keel::f32, shape), Error);
}

TEST_CASE("hostile dimensions give an error or the exact size") {
  const int64_t dims[] = {0,
                          1,
                          -1,
                          -2,
                          INT64_MIN,
                          INT64_MAX,
                          (int64_t{1} << 31) - 1,
                          (int64_t{1} << 31) + 1,
                          int64_t{1} << 32,
                          int64_t{1} << 62};
  for (const int64_t a : dims) {
    for (const int64_t b : dims) {
      for (const int64_t c : dims) {
        const std::vector<int64_t> list = {a, b, c};
        const bool valid = a >= -1 && b >= -1 && c >= -1;
        if (!valid) {
          CHECK_THROWS_AS(Shape{list}, Error);
          continue;
        }
        const Shape shape(list);
        const bool known = a >= 0 && b >= 0 && c >= 0;
        const __int128 product = known ? exact_product(list) : -1;
        if (product < 0) {
          CHECK_THROWS_AS(shape.num_elements(), Error);
          CHECK_THROWS_AS(shape.num_bytes(keel::u8), Error);
          CHECK_THROWS_AS(keel::Tensor(keel::u8, shape), Error);
          continue;
        }
        CHECK(shape.num_elements() == static_cast<int64_t>(product));
        const bool bytes_fit = product * 8 < (static_cast<__int128>(1) << 63);
        if (bytes_fit)
          CHECK(shape.num_bytes(keel::f64) == static_cast<size_t>(product) * 8);
        else
          CHECK_THROWS_AS(shape.num_bytes(keel::f64), Error);
        // No machine here has 2^50 bytes: refused, and the process lives.
        if (product > (int64_t{1} << 50)) CHECK_THROWS_AS(keel::Tensor(keel::u8, shape), Error);
        if (product == 0) CHECK(keel::Tensor(keel::u8, shape).num_bytes() == 0);
      }
    }
  }
}

TEST_CASE("ranks from 0 to 8 are fine and from 9 to 64 an error") {
  for (size_t rank = 0; rank <= 64; ++rank) {
    const std::vector<int64_t> dims(rank, 1);
    if (rank <= 8) {
      CHECK(Shape(dims).rank() == rank);
      CHECK(Shape(dims).num_elements() == 1);
    } else {
      CHECK_THROWS_AS(Shape{dims}, Error);
    }
  }
  Shape full(std::vector<int64_t>(8, 2));
  CHECK(full.num_elements() == 256);
  CHECK_THROWS_AS(full.push_back(1), Error);
  CHECK_THROWS_AS(full.with_inserted(0, 1), Error);
}

TEST_CASE("broadcasting follows NumPy and lets unknown dimensions meet") {
  using keel::broadcast;
  CHECK(broadcast({3, 1}, {4}) == Shape{3, 4});
  CHECK(broadcast({}, {2, 3}) == Shape{2, 3});
  CHECK(broadcast({1, 5}, {7, 1}) == Shape{7, 5});
  CHECK(broadcast({0}, {1}) == Shape{0});
  CHECK(broadcast({2, 0, 3}, {1, 3}) == Shape{2, 0, 3});
  CHECK(broadcast({-1}, {1}) == Shape{-1});
  CHECK(broadcast({-1}, {-1}) == Shape{-1});
  CHECK(broadcast({-1, 3}, {4, 1}) == Shape{4, 3});
  CHECK_FALSE(broadcast({2}, {3}).has_value());
  CHECK_FALSE(broadcast({0}, {2}).has_value());
  CHECK_FALSE(broadcast({2, 3}, {2}).has_value());
}

TEST_CASE("a shape matches a declaration with unknown dimensions") {
  CHECK(keel::matches({-1, 784}, {100, 784}));
  CHECK(keel::matches({}, {}));
  CHECK_FALSE(keel::matches({-1, 784}, {100, 783}));
  CHECK_FALSE(keel::matches({-1, 784}, {784}));
}

TEST_CASE("checked arithmetic is exact at the edges") {
  CHECK(keel::checked_mul(INT64_MAX, 1) == INT64_MAX);
  CHECK(keel::checked_add(INT64_MAX - 1, 1) == INT64_MAX);
  CHECK_THROWS_AS(keel::checked_mul(int64_t{1} << 32, int64_t{1} << 31), Error);
  CHECK_THROWS_AS(keel::checked_mul(INT64_MIN, -1), Error);
  CHECK_THROWS_AS(keel::checked_add(INT64_MAX, 1), Error);
  CHECK(keel::align_up(0, 64) == 0);
  CHECK(keel::align_up(1, 64) == 64);
  CHECK(keel::align_up(64, 64) == 64);
}

TEST_SUITE_END();
