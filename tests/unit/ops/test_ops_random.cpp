// Random ops and dropout: against the sequences of core/base/random.h, and the promises about
// seeds, steps and masks.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/random.h"
#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

Value key(Graph& g, int64_t bits) { return g.constant(Tensor::scalar(bits)); }

TEST_CASE("random ops give the sequences of their key") {
  Graph g;
  const Value like = g.input("like", u8, {-1, 3});
  const Feeds feeds{{like, Tensor(u8, {700, 3})}};  // more than one piece of the filling loop
  const Value k = key(g, 42);
  const Doubles u = elements(uniform_like(k, like, -1, 3, f32), feeds);
  const Doubles d = elements(uniform_like(k, like, 0, 1, f64), feeds);
  const Doubles z = elements(normal_like(k, like, 10, 2, f64), feeds);
  const Doubles b = elements(bernoulli_like(k, like, 0.25), feeds);
  REQUIRE(u.size() == 2100);
  for (uint64_t i = 0; i < 2100; ++i) {
    const uint32_t word = random_bits(42, i);
    REQUIRE(u[i] == static_cast<float>(-1 + 4.0 * static_cast<double>(uniform_float(word))));
    REQUIRE(d[i] == uniform_double(random_bits(42, 2 * i), random_bits(42, 2 * i + 1)));
    REQUIRE(z[i] == 10 + 2 * keel::normal(uint64_t{42}, i));
    REQUIRE((b[i] == 1) == (static_cast<double>(word) / 4294967296.0 < 0.25));
  }
}

TEST_CASE("fold_key is the one of core") {
  Graph g;
  const Tensor folded = evaluate(fold_key(key(g, -5), key(g, 7)));
  CHECK(static_cast<uint64_t>(folded.item<int64_t>()) ==
        keel::fold_key(static_cast<uint64_t>(int64_t{-5}), uint64_t{7}));
  CHECK(contains(error_of([&] { fold_key(key(g, 1), g.constant(counting({2}, i64))); }),
                 "an i64 scalar"));
}

TEST_CASE("random ops depend on seed and step and place and nothing else") {
  Graph g;
  const Value a = uniform(g, {4});
  const Value b = uniform(g, {4});
  const Value w = g.state("w", zeros({4}));
  const Update train{{{w, w + a}}};
  Session one(g, device("ref"), {.seed = 3});
  Session two(g, device("ref"), {.seed = 3});
  Session other(g, device("ref"), {.seed = 4});
  const std::vector<Tensor> first = one.run(train, {a, b});
  CHECK(bit_equal(first[0], two.run({a})[0]));
  CHECK_FALSE(bit_equal(first[0], first[1]));
  CHECK_FALSE(bit_equal(first[0], other.run({a})[0]));
  const Tensor second = one.run({a})[0];
  CHECK_FALSE(bit_equal(first[0], second));
  two.run(train, {});
  CHECK(bit_equal(second, two.run({a})[0]));
}

TEST_CASE("random ops refuse bad parameters") {
  Graph g;
  CHECK(contains(error_of([&] { uniform(g, {2}, 1, 0); }), "finite low <= high"));
  CHECK(contains(error_of([&] { uniform(g, {2}, 0, INFINITY); }), "finite low <= high"));
  CHECK(contains(error_of([&] { uniform(g, {2}, 0, 1, i32); }), "a float dtype"));
  CHECK(contains(error_of([&] { uniform(g, {-1}); }), "use uniform_like"));
  CHECK(contains(error_of([&] { keel::normal(g, {2}, 0, -1); }), "deviation"));
  CHECK(contains(error_of([&] { keel::bernoulli(g, 1.5, {2}); }), "a number in [0, 1]"));
  const int line = __LINE__ + 1;
  const std::string error = error_of([&] { uniform(g, {2}, 1, 0); });
  CHECK(contains(error, "test_ops_random.cpp:" + std::to_string(line)));
}

TEST_CASE("dropout zeroes and scales and its gradient has the same mask") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 10});
  const Value y = dropout(x, 0.25);
  const Value slope = gradients(sum(y), {x})[0];
  const Feeds feeds{{x, Tensor::full(f32, {400, 10}, 3)}};
  Session session(g, device("ref"));
  const std::vector<Tensor> out = session.run({y, slope}, feeds);
  int64_t dropped = 0;
  for (int64_t i = 0; i < 4000; ++i) {
    const bool zero = out[0].at(i) == 0;
    dropped += zero ? 1 : 0;
    REQUIRE(out[0].at(i) == (zero ? 0.0 : 4.0));
    REQUIRE(out[1].at(i) == doctest::Approx(zero ? 0.0 : 4.0 / 3.0));
  }
  // 1000 expected, with a deviation of sqrt(4000 * 0.25 * 0.75) = 27.4.
  CHECK(dropped > 1000 - 5 * 28);
  CHECK(dropped < 1000 + 5 * 28);
}

TEST_CASE("dropout outside training is x itself") {
  Graph g;
  const Value x = g.input("x", f32, {2});
  CHECK(dropout(x, 0.5, false) == x);
  CHECK(dropout(x, 0) == x);
  CHECK(contains(error_of([&] { dropout(x, 1); }), "rate: expected a number in [0, 1)"));
  CHECK(contains(error_of([&] { dropout(x, -0.1); }), "rate"));
  CHECK(contains(error_of([&] { dropout(g.input("i", i32, {2}), 0.5); }), "float dtype"));
}

}  // namespace

TEST_SUITE_END();
