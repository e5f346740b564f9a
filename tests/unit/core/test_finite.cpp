// Where a tensor holds NaN or an infinity.
#include <limits>

#include <doctest/doctest.h>

#include "keel/core/tensor/finite.h"

TEST_SUITE_BEGIN("unit");

TEST_CASE("the first element that is no number is found in every float dtype") {
  using namespace keel;
  for (const DType dtype : {f64, f32, f16, bf16}) {
    CAPTURE(name_of(dtype));
    Tensor values = Tensor::full(dtype, {3, 4}, 2);
    CHECK(!first_non_finite(values));
    values.set(11, -std::numeric_limits<double>::infinity());
    CHECK(first_non_finite(values) == 11);
    values.set(5, std::numeric_limits<double>::quiet_NaN());
    CHECK(first_non_finite(values) == 5);
    values.set(0, std::numeric_limits<double>::infinity());
    CHECK(first_non_finite(values) == 0);
  }
}

TEST_CASE("integers bools and nothing at all are finite") {
  using namespace keel;
  for (const DType dtype : {i64, i32, u8, boolean})
    CHECK(!first_non_finite(Tensor::full(dtype, {5}, 1)));
  CHECK(!first_non_finite(Tensor()));
  CHECK(!first_non_finite(Tensor(f32, {0, 3})));
}

TEST_SUITE_END();
