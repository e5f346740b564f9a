// Layers, initialisers, losses and metrics.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

struct InitialMoments {
  double mean = 0;
  double deviation = 0;
  double largest = 0;
};

InitialMoments moments(const Initializer& init) {
  const Doubles values = elements(initial_value(init, 7));
  InitialMoments m;
  for (const double v : values) m.mean += v / static_cast<double>(values.size());
  for (const double v : values) {
    m.deviation += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
    m.largest = std::max(m.largest, std::fabs(v));
  }
  m.deviation = std::sqrt(m.deviation);
  return m;
}

TEST_CASE("constant initialisers") {
  CHECK(elements(initial_value(zeros({3}), 0)) == Doubles{0, 0, 0});
  CHECK(elements(initial_value(ones({2}, f16), 0)) == Doubles{1, 1});
  CHECK(initial_value(constant({2}, 0.5, f64), 0).type() == Type{f64, {2}});
  Tensor value = counting({2});
  const Initializer copied = from_tensor(value);
  value.set(0, 9);
  CHECK(elements(initial_value(copied, 0)) == Doubles{0, 1});
}

// Deviations of 20000 draws, known to about 0.5 % (normal) and 0.3 % (uniform).
TEST_CASE("random initialisers have the spread of their names") {
  const Shape shape{100, 200};
  CHECK(moments(normal(shape, 3, 0.5)).deviation == doctest::Approx(0.5).epsilon(0.03));
  CHECK(moments(normal(shape, 3, 0.5)).mean == doctest::Approx(3).epsilon(0.01));
  const double glorot = std::sqrt(6.0 / 300);
  CHECK(moments(glorot_uniform(shape)).largest <= glorot);
  CHECK(moments(glorot_uniform(shape)).deviation ==
        doctest::Approx(glorot / std::sqrt(3.0)).epsilon(0.03));
  CHECK(moments(glorot_normal(shape)).deviation ==
        doctest::Approx(std::sqrt(2.0 / 300)).epsilon(0.03));
  CHECK(moments(he_normal(shape)).deviation == doctest::Approx(std::sqrt(2.0 / 100)).epsilon(0.03));
  CHECK(moments(he_uniform(shape)).largest <= std::sqrt(6.0 / 100));
  CHECK(moments(he_uniform(shape)).deviation ==
        doctest::Approx(std::sqrt(2.0 / 100)).epsilon(0.03));
  // A 3 x 3 window over 8 channels.
  CHECK(he_normal({3, 3, 8, 16}).b == doctest::Approx(std::sqrt(2.0 / 72)));
  CHECK(glorot_uniform({10}).b == doctest::Approx(std::sqrt(6.0 / 20)));
  CHECK(std::isfinite(he_normal({0, 4}).b));
}

TEST_CASE("dense multiplies by its weights and adds its bias") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  const auto counted = [](const Shape& shape, DType dtype) {
    return from_tensor(counting(shape, dtype));
  };
  const Value y = dense(x, 2, {.name = "fc", .weights = counted, .bias = ones});
  CHECK(y.shape() == Shape{-1, 2});
  CHECK(g.find_state("fc/w").shape() == Shape{3, 2});
  CHECK(g.find_state("fc/b").shape() == Shape{2});
  CHECK(elements(y, {{x, Tensor::of<float>({1, 3}, {1, 10, 100})}}) == Doubles{421, 532});
  const Value plain = dense(cast(x, f64), 4, {.use_bias = false});
  CHECK(g.find_state("dense/w").type() == Type{f64, {3, 4}});
  CHECK_FALSE(g.find_state("dense/b").valid());
  CHECK(plain.dtype() == f64);
  dense(x, 1);
  CHECK(g.find_state("dense_1/w").valid());
}

TEST_CASE("dense names the user's line") {
  Graph g;
  const Value x = g.input("x", f32, {-1, -1});
  const std::string text = error_of([&] { dense(x, 10); });
  CHECK(contains(text, "dense: x"));
  CHECK(contains(text, "f32") == false);
  CHECK(contains(text, "[?, ?]"));
  CHECK(contains(text, "test_nn.cpp:" + std::to_string(__LINE__ - 4)));
  const Value ok = g.input("ok", f32, {-1, 3});
  CHECK(contains(error_of([&] { dense(ok, 0); }), "units"));
  CHECK(contains(error_of([&] { dense(g.input("bytes", u8, {-1, 3}), 2); }), "cast"));
  CHECK(contains(error_of([&] { dense(1.0, 2); }), "a number"));
  dense(ok, 2, {.name = "fc"});
  const std::string taken = error_of([&] { dense(ok, 2, {.name = "fc"}); });
  CHECK(contains(taken, "'fc/w'"));
  CHECK(contains(taken, "test_nn.cpp:" + std::to_string(__LINE__ - 2)));
  // Nodes inside of layers carry the line of the call.
  const Value y = dense(ok, 2);
  CHECK(y.node().site().line == __LINE__ - 1);
}

TEST_CASE("sequential applies layers in order under the user's line") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  const auto minus = [](const Shape& shape, DType dtype) { return constant(shape, -1, dtype); };
  const std::vector<Layer> layers{dense_layer(4, {.name = "a", .weights = minus}), activation(relu),
                                  dropout_layer(0.5, false),
                                  dense_layer(2, {.name = "b", .bias = ones})};
  const Value y = sequential(x, layers);
  CHECK(y.node().site().line == __LINE__ - 1);
  CHECK(elements(y, {{x, Tensor::of<float>({1, 3}, {1, 2, 3})}}) == Doubles{1, 1});
  const std::string text = error_of([&] { sequential(g.input("z", f32, {3}), layers); });
  CHECK(contains(text, "dense: x"));
  CHECK(contains(text, "test_nn.cpp:" + std::to_string(__LINE__ - 2)));
  CHECK(sequential(x, {}) == x);
}

TEST_CASE("dense inside a loop body keeps its states in the root") {
  Graph g;
  const Value x = g.constant(Tensor::of<float>({1, 2}, {1, 2}));
  const auto body = [](const Values& v) {
    return Values{dense(v[0], 2, {.name = "cell", .weights = ones})};
  };
  const auto always = [](const Values& v) { return less(sum(v[0]), 1e9); };
  const Value y = while_loop({x}, always, body, {.trip_count = 2})[0];
  CHECK(g.find_state("cell/w").valid());
  CHECK(elements(y) == Doubles{6, 6});
}

TEST_CASE("losses and accuracy") {
  Graph g;
  const Value a = g.constant(Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  const Value b = g.constant(Tensor::of<float>({2, 2}, {1, 0, 3, 1}));
  CHECK(elements(mean_squared_error(a, b)) == Doubles{(4.0 + 9.0) / 4});
  CHECK(contains(error_of([&] { mean_squared_error(a, g.constant(counting({2}))); }),
                 "shape [2, 2]"));
  const Value logits = g.constant(Tensor::of<float>({4, 3}, {1, 2, 0, 5, 5, 5, 0, 0, 1, 9, 0, 0}));
  const Value ids = g.constant(Tensor::of<uint8_t>({4}, {1, 0, 2, 2}));
  CHECK(elements(accuracy(logits, ids)) == Doubles{0.75});
  CHECK(contains(error_of([&] {
                   accuracy(logits, g.constant(counting({4, 1}, u8)));
                 }),
                 "shape [4]"));
  const Value flat = g.constant(Tensor(f64, {4, 8}));
  CHECK(elements(cross_entropy(flat, ids))[0] == doctest::Approx(std::log(8.0)));
}

}  // namespace

TEST_SUITE_END();
