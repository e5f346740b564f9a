// Reductions: axes, empty axes, NaN, ties and gradients, with values by hand.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"
#include "unit/ops/not_finite_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

Value double_row(Graph& g, std::vector<double> values) {
  return g.constant(Tensor::of<double>({static_cast<int64_t>(values.size())}, values));
}

TEST_CASE("reductions take any axes") {
  Graph g;
  const Value x = g.constant(counting({2, 3, 2}));
  CHECK(elements(sum(x)) == Doubles{66});
  CHECK(sum(x).shape() == Shape{});
  CHECK(elements(sum(x, {1})) == Doubles{6, 9, 24, 27});
  CHECK(elements(sum(x, {-1, 0})) == Doubles{14, 22, 30});
  CHECK(sum(x, {0, 2}, true).shape() == Shape{1, 3, 1});
  CHECK(sum(x, {}, true).shape() == Shape{1, 1, 1});
  CHECK(elements(mean(x, {1})) == Doubles{2, 3, 8, 9});
  CHECK(elements(max(x, {0})) == Doubles{6, 7, 8, 9, 10, 11});
  CHECK(elements(min(x, {2})) == Doubles{0, 2, 4, 6, 8, 10});
  CHECK(elements(prod(x, {0, 1})) == Doubles{0, 10395});
  CHECK(elements(sum(g.constant(Tensor::scalar(3.0)))) == Doubles{3});
}

TEST_CASE("unknown dimensions stay or go") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 4, 5});
  CHECK(sum(x, {1}).shape() == Shape{-1, 5});
  CHECK(max(x, {0}).shape() == Shape{4, 5});
  CHECK(argmax(x).shape() == Shape{-1, 4});
  CHECK(argmax(x, 0, true).shape() == Shape{1, 4, 5});
}

TEST_CASE("reductions refuse wrong axes") {
  Graph g;
  const Value x = g.constant(counting({2, 3}));
  const std::string text = error_of([&] { sum(x, {2}); });
  CHECK(contains(text, "sum: axes: expected an axis from 0 to 1, counted from the front, got 2"));
  CHECK(contains(text, "test_ops_reduce.cpp:" + std::to_string(__LINE__ - 2)));
  CHECK(contains(text, "also take -2 to -1, counted from the back"));
  CHECK(contains(error_of([&] { sum(x, {0, -2}); }), "axis 0 twice"));
  CHECK(contains(error_of([&] { argmax(x, -3); }), "argmax: axis"));
  CHECK(contains(error_of([&] { argmax(g.constant(Tensor::scalar(1.0))); }), "at least one axis"));
}

TEST_CASE("empty reductions") {
  Graph g;
  const Value x = g.constant(Tensor(f64, {2, 0}));
  CHECK(elements(sum(x, {1})) == Doubles{0, 0});
  CHECK(elements(prod(x, {1})) == Doubles{1, 1});
  CHECK(std::isnan(elements(mean(x)).at(0)));
  CHECK(elements(max(x, {0})).empty());
  CHECK(contains(error_of([&] { max(x, {1}); }),
                 "max: x: expected at least one element along axis 1"));
  CHECK(contains(error_of([&] { min(x); }), "min: x"));
  CHECK(contains(error_of([&] { argmax(x, 1); }), "argmax: x"));
  CHECK(contains(error_of([&] { logsumexp(x, {1}); }), "logsumexp: x"));
}

TEST_CASE("integer reductions wrap and have no mean") {
  Graph g;
  const Value x = g.constant(Tensor::of<uint8_t>({3}, {200, 100, 3}));
  CHECK(elements(sum(x)) == Doubles{47});
  CHECK(elements(prod(x)) == Doubles{96});
  CHECK(sum(x).dtype() == u8);
  CHECK(elements(max(x)) == Doubles{200});
  CHECK(contains(error_of([&] { mean(x); }), "cast(x, dtype)"));
  CHECK(contains(error_of([&] { sum(less(x, 7)); }), "cast(x, dtype)"));
}

TEST_CASE("NaN wins in max and min") {
  Graph g;
  const Value x = g.constant(Tensor::of<double>({2, 3}, {1, kNaN, 3, -kInf, 2, kInf}));
  CHECK(std::isnan(elements(max(x, {1}))[0]));
  CHECK(elements(max(x, {1}))[1] == kInf);
  CHECK(std::isnan(elements(min(x, {1}))[0]));
  CHECK(elements(min(x, {1}))[1] == -kInf);
}

TEST_CASE("argmax takes the first of ties and the first NaN") {
  Graph g;
  const Value x = g.constant(Tensor::of<double>({4, 4}, {1, 3, 3, 2,                  //
                                                         1, kNaN, 9, kNaN,            //
                                                         -kInf, -kInf, -kInf, -kInf,  //
                                                         0, -0.0, 0, -1}));
  CHECK(elements(argmax(x)) == Doubles{1, 1, 0, 0});
  CHECK(argmax(x).dtype() == i64);
  const Value columns = g.constant(Tensor::of<uint8_t>({3, 2}, {1, 9, 5, 9, 5, 0}));
  CHECK(elements(argmax(columns, 0)) == Doubles{1, 0});
  CHECK(argmax(columns, 0, true).shape() == Shape{1, 2});
}

TEST_CASE("the gradient of max is shared by ties") {
  Graph g;
  const Value x = double_row(g, {2, 5, 5, 1, 5});
  const double third = 1.0 / 3;
  CHECK(elements(gradients(sum(max(x)), {x})[0]) == Doubles{0, third, third, 0, third});
  const Value y = g.constant(Tensor::of<double>({2, 2}, {1, 1, 2, 3}));
  CHECK(elements(gradients(sum(min(y, {1})), {y})[0]) == Doubles{0.5, 0.5, 1, 0});
}

// y = w max(x) gives x the gradient w where x is the largest and 0 where NaN decides, so the sum of
// it has the gradient 1 and 0 for w.
TEST_CASE("the gradient of the gradient of max and min is 0 where NaN decides") {
  for (const bool decides : {false, true}) {
    CAPTURE(decides);
    for (const bool largest : {false, true}) {
      CAPTURE(largest);
      Graph g;
      const Value x = double_row(g, {decides ? kNaN : 3, 1});
      const Value w = g.constant(Tensor::scalar<double>(2));
      const Value y = (largest ? max(x) : min(x)) * w;
      const Value gx = gradients(y, {x})[0];
      const double share = decides ? 0 : 1;
      CHECK(elements(sum(gx)) == Doubles{2 * share});
      CHECK(elements(gradients(sum(gx), {w})[0]) == Doubles{share});
    }
  }
}

TEST_CASE("the gradient of prod is right with zeros") {
  Graph g;
  const auto gradient = [&](std::vector<double> values) {
    const Value x = double_row(g, std::move(values));
    return elements(gradients(prod(x), {x})[0]);
  };
  CHECK(gradient({2, 3, 4}) == Doubles{12, 8, 6});
  CHECK(gradient({2, 0, 4}) == Doubles{0, 8, 0});
  CHECK(gradient({2, 0, 0}) == Doubles{0, 0, 0});
  CHECK(gradient({0}) == Doubles{1});
}

TEST_CASE("gradients of sum and mean spread evenly") {
  Graph g;
  const Value x = g.constant(counting({2, 3}, f64));
  const Value weights = double_row(g, {1, 2});
  CHECK(elements(gradients(sum(sum(x, {1}) * weights), {x})[0]) == Doubles{1, 1, 1, 2, 2, 2});
  CHECK(elements(gradients(sum(mean(x, {0}, true)), {x})[0]) ==
        Doubles{0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
}

TEST_CASE("means of many halves neither overflow nor lose their digits") {
  Graph g;
  const Value x = g.constant(Tensor::full(f16, {70000}, 2));
  CHECK(elements(mean(x)) == Doubles{2});
  const Tensor gradient = evaluate(gradients(mean(x), {x})[0]);
  CHECK(gradient.at(0) == doctest::Approx(1.0 / 70000).epsilon(0.005));
}

TEST_CASE("logsumexp does not overflow") {
  Graph g;
  CHECK(elements(logsumexp(double_row(g, {1000, 1000})))[0] == doctest::Approx(1000.6931471805599));
  CHECK(elements(logsumexp(double_row(g, {-1000, -1001})))[0] ==
        doctest::Approx(-999.6867383124818));
  CHECK(elements(logsumexp(double_row(g, {-kInf, -kInf})))[0] == -kInf);
  CHECK(elements(logsumexp(double_row(g, {kInf, 0})))[0] == kInf);
  CHECK(std::isnan(elements(logsumexp(double_row(g, {kNaN, 0})))[0]));
  const Value x = double_row(g, {0, std::log(3.0)});
  const Doubles share = elements(gradients(logsumexp(x), {x})[0]);
  CHECK(share[0] == doctest::Approx(0.25));
  CHECK(share[1] == doctest::Approx(0.75));
}

TEST_CASE("sum_to_shape undoes broadcasts") {
  Graph g;
  const Value x = g.constant(counting({2, 3, 2}));
  CHECK(sum_to_shape(x, {2, 3, 2}) == x);
  CHECK(elements(sum_to_shape(x, {3, 1})) == Doubles{14, 22, 30});
  CHECK(elements(sum_to_shape(x, {1, 3, 2})) == Doubles{6, 8, 10, 12, 14, 16});
  CHECK(elements(sum_to_shape(x, {})) == Doubles{66});
}

}  // namespace

TEST_SUITE_END();
