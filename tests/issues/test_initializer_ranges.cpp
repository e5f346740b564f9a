// Random initializers took numbers that describe no distribution, and gave weights of NaN, or from
// beyond the range.
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
  refused(normal(shape, 0, -1), "normal: deviation: expected a finite number >= 0, got -1");
  refused(trunc_normal(shape, 0, -1), "trunc_normal: deviation");
  refused(normal(shape, kNaN, 1), "normal: mean: expected a finite number, got nan");
  refused(normal(shape, 0, kNaN), "normal: deviation");
  refused(orthogonal(shape, kInfinity), "orthogonal: gain: expected a finite number, got inf");
  CHECK(initial_value(uniform(shape, 2, 2), 1).at(4) == 2);
  CHECK(initial_value(normal(shape, 2, 0), 1).at(4) == 2);
}

TEST_SUITE_END();

}  // namespace keel
