// The reference of softmax subtracted largest + log(sum) at once: of rows far from 0 the logarithm
// was lost, and probabilities added up to the number of classes.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

TEST_SUITE_BEGIN("issues");

TEST_CASE("softmax of rows far from 0 adds up to 1 on every backend") {
  using namespace keel;
  for (const std::string& backend : backend_names()) {
    for (const float far : {-3e38f, 1e20f, 3e38f}) {
      CAPTURE(backend);
      CAPTURE(far);
      Graph g;
      const Value x = g.input("x", f32, {1, 4}), ids = g.constant(Tensor::of<int32_t>({1}, {2}));
      Session session(g, device(backend));
      const auto got = session.run({softmax(x), log_softmax(x), softmax_cross_entropy(x, ids)},
                                   {{x, Tensor::of<float>({1, 4}, {far, far, far, far})}});
      for (int64_t i = 0; i < 4; ++i) {
        CHECK(got[0].at(i) == 0.25);
        CHECK(got[1].at(i) == doctest::Approx(-1.3862943611198906));
      }
      CHECK(got[2].at(0) == doctest::Approx(1.3862943611198906));
    }
  }
}

TEST_SUITE_END();
