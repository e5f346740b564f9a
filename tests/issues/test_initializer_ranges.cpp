// Random initializers took numbers that describe no distribution, and gave weights of NaN, or from
// beyond the range; all took numbers that their dtype does not hold, and rounded them.
#include <limits>

#include <doctest/doctest.h>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/initializer.h"
#include "keel/ops/nn/initializers.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("initializers refuse numbers that describe no distribution") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const Shape shape{3, 3};
  const auto refused = [](const Initializer& init, const char* message) {
    Graph g;
    CHECK_THROWS_WITH_AS(g.state("w", init), doctest::Contains(message), Error);
    CHECK_THROWS_WITH_AS(initial_value(init, 1), doctest::Contains(message), Error);
  };
  refused(uniform(shape, 1, 0), "uniform: range: expected finite low <= high, got [1, 0)");
  refused(uniform(shape, -kInfinity, 1), "got [-inf, 1)");
  refused(uniform(shape, -1e308, 1e308, f64),
          "uniform: high: expected less than 1.8e308 above low, got 1e+308");
  refused(normal(shape, 0, -1), "normal: deviation: expected a finite number >= 0, got -1");
  refused(trunc_normal(shape, 0, -1), "trunc_normal: deviation");
  refused(normal(shape, kNaN, 1), "normal: mean: expected a finite number, got nan");
  refused(normal(shape, 0, kNaN), "normal: deviation");
  refused(orthogonal(shape, kInfinity), "orthogonal: gain: expected a finite number, got inf");
  CHECK(initial_value(uniform(shape, 2, 2), 1).at(4) == 2);
  CHECK(initial_value(normal(shape, 2, 0), 1).at(4) == 2);
}

TEST_CASE("initializers refuse numbers that their dtype does not hold") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const Shape shape{2};
  const auto refused = [](const Initializer& init, const char* message) {
    Graph g;
    CHECK_THROWS_WITH_AS(g.state("w", init), doctest::Contains(message), Error);
    CHECK_THROWS_WITH_AS(initial_value(init, 1), doctest::Contains(message), Error);
  };
  refused(constant(shape, 0.5, i32), "constant: value: expected a number that fits i32, got 0.5");
  refused(constant(shape, 300, u8), "constant: value: expected a number that fits u8, got 300");
  refused(constant(shape, -1, u8), "constant: value: expected a number that fits u8, got -1");
  refused(constant(shape, 1e6, f16), "constant: value: expected a number that fits f16");
  refused(constant(shape, 1e300), "constant: value: expected a number that fits f32");
  refused(constant(shape, 0x1p63, i64), "constant: value: expected a number that fits i64");
  refused(constant(shape, kNaN, i64), "constant: value: expected a number that fits i64");
  refused(constant(shape, 2, boolean), "constant: value: expected a number that fits bool");
  refused(uniform(shape, 0, 1e6, f16), "uniform: high: expected a number that fits f16");
  refused(normal(shape, 1e6, 1, f16), "normal: mean: expected a number that fits f16");
  const auto taken = [](const Initializer& init) { return initial_value(init, 1).at(1); };
  CHECK(taken(constant(shape, 255, u8)) == 255);
  CHECK(taken(constant(shape, 65504, f16)) == 65504);
  CHECK(taken(constant(shape, -kInfinity, f16)) == -kInfinity);
  CHECK(taken(constant(shape, 1, boolean)) == 1);
  CHECK(taken(constant(shape, -0x1p63, i64)) == -0x1p63);
}

TEST_SUITE_END();

}  // namespace keel
