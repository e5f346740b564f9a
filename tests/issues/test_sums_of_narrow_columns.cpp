// Sums down the columns of narrow matrices added up to 32,768 rows one after the other: 0.1 was off
// by 1,300 times its epsilon, and so were means and variances of few channels.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("long sums of few columns are as good as those of many") {
  struct Case {
    Shape shape;
    std::vector<int64_t> axes;
  };
  for (const Case& c : {Case{{8192, 4}, {0}},
                        {{16384, 2}, {0}},
                        {{100000, 3}, {0}},
                        {{1000000, 2}, {0}},
                        {{20000, 5, 3}, {0, 2}},
                        {{7, 9000, 4}, {1}}}) {
    Graph g;
    const Value x = g.input("x", f32, c.shape);
    const Value total = sum(x, c.axes);
    const Tensor tenths = Tensor::full(f32, c.shape, 0.1);
    for (const char* backend : {"cpu", "npu"}) {
      CAPTURE(std::string(backend));
      CAPTURE(to_string(c.shape));
      Session session(g, device(backend));
      const Tensor out = session.run(total, {{x, tenths}});
      const double exact = static_cast<double>(0.1f) * static_cast<double>(tenths.num_elements()) /
                           static_cast<double>(out.num_elements());
      double worst = 0;
      for (int64_t i = 0; i < out.num_elements(); ++i)
        worst = std::max(worst, std::fabs(out.at(i) - exact) / exact);
      // 512 rows of a chunk, and as many chunks at most as a million rows have.
      CHECK(worst < 200 * std::numeric_limits<float>::epsilon());
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
