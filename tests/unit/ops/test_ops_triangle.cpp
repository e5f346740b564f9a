// tril, triu and eye: expected values from xtensor and by hand.
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <xtensor/xarray.hpp>
#include <xtensor/xbuilder.hpp>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

TEST_CASE("tril and triu agree with xtensor for every diagonal") {
  Graph g;
  const Value x = g.constant(counting({3, 4}));
  xt::xarray<double> a = xt::zeros<double>({3, 4});
  for (size_t i = 0; i < a.size(); ++i) a.flat(i) = static_cast<double>(i);
  for (int k = -4; k <= 5; ++k) {
    CAPTURE(k);
    const xt::xarray<double> low = xt::tril(a, k), high = xt::triu(a, k);
    CHECK(elements(tril(x, k)) == Doubles(low.begin(), low.end()));
    CHECK(elements(triu(x, k)) == Doubles(high.begin(), high.end()));
  }
  CHECK(elements(tril(x, std::numeric_limits<int64_t>::min())) == Doubles(12, 0.0));
  CHECK(elements(triu(x, std::numeric_limits<int64_t>::min())) == elements(x));
}

TEST_CASE("a causal mask of a length that is known at the run on every backend") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {-1, -1, -1});
    const Value y = tril(x);
    const Value dx = gradients(sum(y * y), {x})[0];
    Tensor t = counting({2, 2, 3});
    t.set(1, std::numeric_limits<double>::quiet_NaN());
    Session session(g, device(backend));
    const auto out = session.run({y, dx}, {{x, t}});
    CHECK(elements(out[0]) == Doubles{0, 0, 0, 3, 4, 0, 6, 0, 0, 9, 10, 0});
    CHECK(elements(out[1]) == Doubles{0, 0, 0, 6, 8, 0, 12, 0, 0, 18, 20, 0});
  }
}

TEST_CASE("tril of bool and of integers") {
  Graph g;
  CHECK(elements(triu(g.constant(Tensor::full(boolean, {2, 2}, 1)), 1)) == Doubles{0, 1, 0, 0});
  CHECK(elements(tril(g.constant(counting({2, 2}, u8)))) == Doubles{0, 0, 2, 3});
  CHECK(contains(error_of([&] { tril(g.constant(counting({2}))); }), "rank"));
}

TEST_CASE("eye has ones on its diagonal in any dtype") {
  for (const DType dtype : {f32, f16, i64, u8, boolean}) {
    Graph g;
    const Value e = eye(g, 2, {.columns = 3, .diagonal = 1, .dtype = dtype});
    CHECK(e.type() == Type{dtype, {2, 3}});
    CHECK(elements(e) == Doubles{0, 1, 0, 0, 0, 1});
  }
  Graph g;
  CHECK(elements(eye(g, 2)) == Doubles{1, 0, 0, 1});
  CHECK(elements(eye(g, 0)).empty());
  CHECK(contains(error_of([&] { eye(g, -1); }), "rows"));
  CHECK(contains(error_of([&] { eye(g, 1, {.columns = -3}); }), "columns"));
}

}  // namespace

TEST_SUITE_END();
