// Initializers: the moments, ranges and orthogonality that their names promise.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/random.h"
#include "keel/graph/ir/text.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

struct Moments {
  double mean = 0, deviation = 0, lowest = INFINITY, highest = -INFINITY;
};

Moments moments_of(const Tensor& tensor) {
  Moments m;
  double sum = 0, squares = 0;
  for (const double x : elements(tensor)) {
    sum += x;
    squares += x * x;
    m.lowest = std::min(m.lowest, x);
    m.highest = std::max(m.highest, x);
  }
  const auto n = static_cast<double>(tensor.num_elements());
  m.mean = sum / n;
  m.deviation = std::sqrt(squares / n - m.mean * m.mean);
  return m;
}

TEST_CASE("trunc_normal has the moments of a normal distribution cut at two deviations") {
  constexpr double kMean = 3, kDeviation = 0.5;
  const Tensor drawn = initial_value(trunc_normal({100, 1000}, kMean, kDeviation), 17);
  const Moments m = moments_of(drawn);
  CHECK(m.lowest >= kMean - 2 * kDeviation);
  CHECK(m.highest <= kMean + 2 * kDeviation);
  CHECK(m.lowest < kMean - 1.98 * kDeviation);
  CHECK(m.highest > kMean + 1.98 * kDeviation);
  // Its variance is 1 - 2 * 2 * phi(2) / (Phi(2) - Phi(-2)) of the uncut one's.
  const double phi = std::exp(-2.0) / std::sqrt(2 * 3.14159265358979323846);
  const double inside = std::erf(2 / std::sqrt(2.0));
  const double deviation = kDeviation * std::sqrt(1 - 4 * phi / inside);
  // Four standard errors of 100,000 draws.
  CHECK(std::abs(m.mean - kMean) < 4 * deviation / std::sqrt(1e5));
  CHECK(std::abs(m.deviation - deviation) < 4 * deviation / std::sqrt(2e5));
}

TEST_CASE("trunc_normal keeps the draws of normal that are in range") {
  const Tensor cut = initial_value(trunc_normal({1000}, 0, 1), 5);
  int64_t redrawn = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const auto draw = static_cast<float>(keel::normal(5, static_cast<uint64_t>(i)));
    if (std::abs(draw) <= 2)
      CHECK(cut.at(i) == draw);
    else
      ++redrawn;
  }
  CHECK(redrawn > 20);
  CHECK(redrawn < 80);
  // An element does not depend on how many there are.
  CHECK(bit_equal(initial_value(trunc_normal({10}, 0, 1), 5), Tensor::of<float>({10}, [&] {
                    std::vector<float> first;
                    for (int64_t i = 0; i < 10; ++i) first.push_back(static_cast<float>(cut.at(i)));
                    return first;
                  }())));
}

// The products of all pairs of columns, or rows, of a matrix.
void check_orthonormal(const Tensor& matrix, int64_t rows, int64_t columns, double gain,
                       double tolerance) {
  const bool by_column = columns <= rows;
  const int64_t vectors = by_column ? columns : rows, length = by_column ? rows : columns;
  const auto element = [&](int64_t vector, int64_t k) {
    return matrix.at(by_column ? k * columns + vector : vector * columns + k);
  };
  for (int64_t a = 0; a < vectors; ++a) {
    for (int64_t b = 0; b <= a; ++b) {
      double product = 0;
      for (int64_t k = 0; k < length; ++k) product += element(a, k) * element(b, k);
      CHECK(std::abs(product - (a == b ? gain * gain : 0)) < tolerance);
    }
  }
}

TEST_CASE("orthogonal gives orthonormal columns or rows") {
  check_orthonormal(initial_value(orthogonal({40, 24}, 1, f64), 1), 40, 24, 1, 1e-13);
  check_orthonormal(initial_value(orthogonal({24, 40}, 1, f64), 2), 24, 40, 1, 1e-13);
  check_orthonormal(initial_value(orthogonal({30, 30}, 2), 3), 30, 30, 2, 2e-5);
  // A convolution's weights: the last axis counts the outputs.
  check_orthonormal(initial_value(orthogonal({3, 3, 4, 8}), 4), 36, 8, 1, 1e-5);
  CHECK(std::abs(initial_value(orthogonal({}), 5).at(0)) == doctest::Approx(1));
  CHECK(initial_value(orthogonal({0, 4}), 5).num_elements() == 0);
}

// If no direction is favoured, an element (here that of row 1 and column 1) is positive half the
// time, and its square is a quarter on average.
TEST_CASE("orthogonal favours no direction") {
  int positive = 0;
  double square = 0;
  for (uint64_t key = 0; key < 400; ++key) {
    const double x = initial_value(orthogonal({4, 4}, 1, f64), key).at(5);
    positive += x > 0 ? 1 : 0;
    square += x * x / 400;
  }
  CHECK(positive > 150);
  CHECK(positive < 250);
  CHECK(square == doctest::Approx(0.25).epsilon(0.2));  // a quarter of the row's length 1
}

TEST_CASE("xavier and kaiming go by the fans") {
  const Shape shape{300, 100};
  const double xavier = std::sqrt(6.0 / 400), kaiming = std::sqrt(6.0 / 300);
  const Moments x = moments_of(initial_value(xavier_uniform(shape), 1));
  const Moments k = moments_of(initial_value(kaiming_uniform(shape), 1));
  CHECK(x.highest == doctest::Approx(xavier).epsilon(0.01));
  CHECK(x.lowest == doctest::Approx(-xavier).epsilon(0.01));
  CHECK(k.highest == doctest::Approx(kaiming).epsilon(0.01));
  CHECK(moments_of(initial_value(xavier_normal(shape), 1)).deviation ==
        doctest::Approx(std::sqrt(2.0 / 400)).epsilon(0.02));
  CHECK(moments_of(initial_value(kaiming_normal(shape), 1)).deviation ==
        doctest::Approx(std::sqrt(2.0 / 300)).epsilon(0.02));
}

TEST_CASE("new initializers are the same on every backend and survive text") {
  Graph g;
  const Value a = g.state("a", trunc_normal({5, 7}, 0, 0.02));
  const Value b = g.state("b", orthogonal({7, 5}, 1.5));
  g.set_outputs({a + 0.0f, b + 0.0f});
  const std::string text = print_graph(g);
  const auto parsed = parse_graph(text);
  const Tensor expected_a = initial_value(trunc_normal({5, 7}, 0, 0.02), fold_key(9, "a"));
  for (const char* name : {"ref", "cpu", "npu"}) {
    Session session(g, device(name), {.seed = 9});
    Session again(*parsed, device(name), {.seed = 9});
    CHECK(bit_equal(session.read(a), expected_a));
    CHECK(bit_equal(again.read(parsed->find_state("b")), session.read(b)));
  }
  CHECK(contains(error_of([&] { g.state("c", trunc_normal({2}, 0, 1, i32)); }), "a float dtype"));
  CHECK(contains(error_of([&] { g.state("d", orthogonal({2}, 1, i64)); }), "a float dtype"));
}

}  // namespace

TEST_SUITE_END();
