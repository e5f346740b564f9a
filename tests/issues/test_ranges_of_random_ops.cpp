// uniform and normal took numbers that their dtype does not hold, and gave infinities.
#include <string>

#include <doctest/doctest.h>

#include "keel/keel.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("random ops refuse numbers that their dtype does not hold") {
  const auto refused = [](DType dtype, bool is_uniform, double a, double b, const char* message) {
    Graph g;
    CHECK_THROWS_WITH_AS(is_uniform ? uniform(g, {4}, a, b, dtype) : normal(g, {4}, a, b, dtype),
                         doctest::Contains(message), Error);
  };
  refused(f16, true, 0, 1e6, "uniform: high: expected a number that fits f16, got 1e+06");
  refused(f16, true, -1e6, 0, "uniform: low: expected a number that fits f16");
  refused(f32, true, 0, 1e300, "uniform: high: expected a number that fits f32");
  refused(f64, true, -1.7e308, 1.7e308, "uniform: high: expected less than 1.8e308 above low");
  refused(bf16, false, 0, 1e39, "normal: deviation: expected a number that fits bf16");
  refused(f32, false, 1e39, 1, "normal: mean: expected a number that fits f32");
  Graph g;
  CHECK(uniform(g, {4}, -65504, 65504, f16).shape() == Shape{4});
}

TEST_SUITE_END();

}  // namespace keel
