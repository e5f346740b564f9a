// The second derivative of huber was 0 where prediction and target are equal: it was made of |d|,
// whose slope at 0 counts as 0, though d * d / 2 is smooth there.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("huber has the curvature of a square at its target as near it") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    Graph g;
    const Value q = g.input("q", f32, {6});
    const Value loss = huber(q, 0, 1);
    const Value slope = gradients(sum(loss), {q})[0];
    const Value curvature = gradients(sum(slope), {q})[0];
    Session session(g, device(backend));
    const auto out = session.run({loss, slope, curvature},
                                 {{q, Tensor::of<float>({6}, {0, 0.25f, 2, -0.5f, -3, -0.0f})}});
    const std::vector<double> losses{0, 0.03125, 1.5, 0.125, 2.5, 0};
    const std::vector<double> slopes{0, 0.25, 1, -0.5, -1, 0}, curvatures{1, 1, 0, 1, 0, 1};
    for (int64_t i = 0; i < 6; ++i) {
      const auto at = static_cast<size_t>(i);
      CHECK(out[0].at(i) == losses[at]);
      CHECK_FALSE(std::signbit(out[0].at(i)));
      CHECK(out[1].at(i) == slopes[at]);
      CHECK(out[2].at(i) == curvatures[at]);
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
