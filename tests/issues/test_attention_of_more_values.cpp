// Attention in f64, which is composed of other ops, failed to compile where values have leading
// dimensions that queries and keys lack.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("attention of values with more leading dimensions than queries and keys") {
  Tensor q(f64, {3, 4}), k(f64, {5, 4}), v(f64, {2, 5, 6});
  int64_t at = 0;
  for (Tensor* t : {&q, &k, &v})
    for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, std::sin(static_cast<double>(++at)));
  std::vector<double> expected;
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t i = 0; i < 3; ++i) {
      std::vector<double> weights;
      double total = 0;
      for (int64_t j = 0; j < 5; ++j) {
        double score = 0;
        for (int64_t f = 0; f < 4; ++f) score += q.at(i * 4 + f) * k.at(j * 4 + f);
        weights.push_back(std::exp(score));
        total += weights.back();
      }
      for (int64_t o = 0; o < 6; ++o) {
        double sum = 0;
        for (int64_t j = 0; j < 5; ++j)
          sum += weights[static_cast<size_t>(j)] * v.at(head * 30 + j * 6 + o);
        expected.push_back(sum / total);
      }
    }
  }
  for (const char* backend : {"ref", "cpu"}) {
    CAPTURE(std::string(backend));
    Graph g;
    const Value a = g.input("q", f64, q.shape()), b = g.input("k", f64, k.shape()),
                c = g.input("v", f64, v.shape());
    const Value out = attention(a, b, c, {.scale = 1});
    const Values slopes = gradients(sum(out), {a, b, c});
    Session session(g, device(backend));
    const auto got = session.run({out, slopes[0], slopes[1], slopes[2]}, {{a, q}, {b, k}, {c, v}});
    REQUIRE(got[0].shape() == Shape{2, 3, 6});
    for (int64_t i = 0; i < got[0].num_elements(); ++i)
      CHECK(got[0].at(i) == doctest::Approx(expected[static_cast<size_t>(i)]).epsilon(1e-12));
    CHECK(got[1].shape() == q.shape());
  }
}

TEST_SUITE_END();

}  // namespace keel
