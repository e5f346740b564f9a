// var and stddev: closed forms, xtensor, and numbers that one pass would get wrong.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <xtensor/xarray.hpp>
#include <xtensor/xmath.hpp>

#include "keel/graph/autodiff/gradient.h"

#include "gradients_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

TEST_CASE("var and stddev agree with xtensor over any axes") {
  Graph g;
  Tensor t(f64, {3, 4, 5});
  xt::xarray<double> a = xt::zeros<double>({3, 4, 5});
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.set(i, std::sin(static_cast<double>(i * i)));
    a.flat(static_cast<size_t>(i)) = t.at(i);
  }
  const Value x = g.constant(t);
  const auto check = [&](const std::vector<int64_t>& axes, const std::vector<size_t>& expected) {
    const xt::xarray<double> means = xt::mean(a, expected, xt::keep_dims);
    const xt::xarray<double> distances = a - means;
    const xt::xarray<double> squares = distances * distances;
    const xt::xarray<double> variances = xt::mean(squares, expected);
    const xt::xarray<double> deviations = xt::sqrt(variances);
    check_close(elements(var(x, axes)), Doubles(variances.begin(), variances.end()), 1e-14);
    check_close(elements(stddev(x, axes)), Doubles(deviations.begin(), deviations.end()), 1e-14);
  };
  check({}, {0, 1, 2});
  check({1}, {1});
  check({-1, 0}, {0, 2});
  CHECK(var(x, {1}, {.keepdims = true}).shape() == Shape{3, 1, 5});
  CHECK(stddev(x).shape() == Shape{});
}

TEST_CASE("the variance of a sample divides by one less") {
  Graph g;
  // Mean 5, squared distances 9 1 1 1 0 0 4 16: 32 in all.
  const Value x = g.constant(Tensor::of<double>({8}, {2, 4, 4, 4, 5, 5, 7, 9}));
  CHECK(elements(var(x)) == Doubles{4});
  CHECK(elements(stddev(x)) == Doubles{2});
  CHECK(elements(var(x, {}, {.sample = true})) == Doubles{32.0 / 7});
  CHECK(elements(stddev(x, {}, {.sample = true})) == Doubles{std::sqrt(32.0 / 7)});
  // d var / dx = 2 (x - 5) / n, and d stddev / dx = (x - 5) / (n stddev).
  check_close(elements(gradients(var(x), {x})[0]), {-0.75, -0.25, -0.25, -0.25, 0, 0, 0.5, 1},
              1e-15);
  check_close(elements(gradients(var(x, {}, {.sample = true}), {x})[0]),
              {-6.0 / 7, -2.0 / 7, -2.0 / 7, -2.0 / 7, 0, 0, 4.0 / 7, 8.0 / 7}, 1e-15);
  check_close(elements(gradients(stddev(x), {x})[0]),
              {-3.0 / 16, -1.0 / 16, -1.0 / 16, -1.0 / 16, 0, 0, 2.0 / 16, 4.0 / 16}, 1e-15);
}

TEST_CASE("a large mean costs a variance no digits on any backend") {
  // Alternately 1,000,000 and 1,000,001: 0.25 exactly. The squares would need 13 digits.
  Tensor t(f32, {64, 100});
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, 1e6 + static_cast<double>(i % 2));
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {-1, 100});
    Session session(g, device(backend));
    const Tensor rows = session.run(var(x, {1}), {{x, t}});
    check_close(elements(rows), Doubles(64, 0.25), 1e-6);
    CHECK(session.run(stddev(x), {{x, t}}).item<float>() == doctest::Approx(0.5).epsilon(1e-6));
  }
}

TEST_CASE("halves are summed up in f32") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    // 8,192 squares of 10 are beyond f16, their mean is not.
    Tensor t(f16, {8192});
    for (int64_t i = 0; i < 8192; ++i) t.set(i, i % 2 == 0 ? 10 : -10);
    const Value x = g.input("x", f16, {-1});
    Session session(g, device(backend));
    CHECK(session.run(var(x), {{x, t}}).at(0) == 100);
  }
}

TEST_CASE("variances at their corners") {
  Graph g;
  const Value one = g.constant(Tensor::of<double>({1}, {3}));
  CHECK(elements(var(one)) == Doubles{0});
  CHECK(std::isnan(elements(var(one, {}, {.sample = true}))[0]));
  CHECK(std::isnan(elements(var(g.constant(Tensor(f64, {0}))))[0]));
  // All equal: the deviation has a kink there.
  const Value flat = g.constant(Tensor::of<double>({2, 2}, {1, 1, 1, 3}));
  CHECK(elements(gradients(sum(stddev(flat, {1})), {flat})[0]) == Doubles{0, 0, -0.5, 0.5});
  CHECK(contains(error_of([&] { var(g.constant(counting({2}, i32))); }), "cast"));
  CHECK(contains(error_of([&] { var(flat, {2}); }), "axes"));
  CHECK(contains(error_of([&] { stddev(flat, {0, -2}); }), "twice"));
}

}  // namespace

TEST_SUITE_END();
