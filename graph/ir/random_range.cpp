#include "keel/graph/ir/random_range.h"

#include <cmath>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"

namespace keel {

void require_random_range(const std::string& op, const std::string& distribution, double a,
                          double b) {
  const auto require = [&](bool fits, const char* argument, const char* expected,
                           const std::string& got) {
    if (fits) return;
    throw Error({.op = op, .argument = argument, .expected = expected, .got = got});
  };
  const bool finite = std::isfinite(a) && std::isfinite(b);
  if (distribution == "uniform") {
    require(finite && a <= b, "range", "finite low <= high",
            "[" + printable(a) + ", " + printable(b) + ")");
    // Numbers are drawn as a + (b - a) * x.
    return require(std::isfinite(b - a), "high", "less than 1.8e308 above low", printable(b));
  }
  require(std::isfinite(a), "mean", "a finite number", printable(a));
  require(finite && b >= 0, "deviation", "a finite number >= 0", printable(b));
}

}  // namespace keel
