// resize: expected values by hand, and by the interpolation's definition over real positions.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

// One row of an image, resized.
Doubles resized_row(const Doubles& x, int64_t size, const char* mode) {
  Graph g;
  Tensor t(f64, {1, 1, static_cast<int64_t>(x.size()), 1});
  for (size_t i = 0; i < x.size(); ++i) t.set(static_cast<int64_t>(i), x[i]);
  return elements(resize(g.constant(t), {.size = {1, size}, .mode = mode}));
}

TEST_CASE("nearest takes the element that a position lies in") {
  CHECK(resized_row({1, 2}, 4, "nearest") == Doubles{1, 1, 2, 2});
  CHECK(resized_row({1, 2, 3, 4}, 2, "nearest") == Doubles{2, 4});
  CHECK(resized_row({1, 2, 3}, 2, "nearest") == Doubles{1, 3});
  CHECK(resized_row({1, 2}, 3, "nearest") == Doubles{1, 2, 2});
  CHECK(resized_row({1, 2, 3}, 3, "nearest") == Doubles{1, 2, 3});
  CHECK(resized_row({1, 2, 3}, 0, "nearest").empty());
}

TEST_CASE("bilinear mixes by the distance of half-pixel centres") {
  CHECK(resized_row({0, 4}, 4, "bilinear") == Doubles{0, 1, 3, 4});
  CHECK(resized_row({0, 4, 8, 12}, 2, "bilinear") == Doubles{2, 10});
  CHECK(resized_row({0, 6}, 3, "bilinear") == Doubles{0, 3, 6});
  CHECK(resized_row({5}, 3, "bilinear") == Doubles{5, 5, 5});
  // An element without a share does not count, even where it is infinite.
  CHECK(resized_row({1, 2, INFINITY}, 1, "bilinear") == Doubles{2});
  CHECK(resized_row({1, 2, INFINITY}, 3, "bilinear") == Doubles{1, 2, INFINITY});
}

// The definition, with positions as real numbers.
double interpolated(const Tensor& x, double row, double column, int64_t channel) {
  const Shape& s = x.shape();
  const auto element = [&](double h, double w) {
    const auto i = static_cast<int64_t>(std::clamp(h, 0.0, static_cast<double>(s[1] - 1)));
    const auto j = static_cast<int64_t>(std::clamp(w, 0.0, static_cast<double>(s[2] - 1)));
    return x.at((i * s[2] + j) * s[3] + channel);
  };
  const double top = std::floor(row), left = std::floor(column);
  const double down = row - top, right = column - left;
  return (1 - down) * ((1 - right) * element(top, left) + right * element(top, left + 1)) +
         down * ((1 - right) * element(top + 1, left) + right * element(top + 1, left + 1));
}

TEST_CASE("resize of both axes is the interpolation of its definition on every backend") {
  const Tensor x = counting({1, 3, 5, 2}, f32);
  for (const auto& size : {std::pair<int64_t, int64_t>{7, 4}, {2, 9}, {3, 5}, {1, 1}}) {
    Doubles expected;
    for (int64_t i = 0; i < size.first; ++i) {
      for (int64_t j = 0; j < size.second; ++j) {
        for (int64_t c = 0; c < 2; ++c) {
          const double h = (static_cast<double>(i) + 0.5) * 3 / static_cast<double>(size.first);
          const double w = (static_cast<double>(j) + 0.5) * 5 / static_cast<double>(size.second);
          expected.push_back(interpolated(x, h - 0.5, w - 0.5, c));
        }
      }
    }
    for (const char* where : {"ref:0", "cpu:0", "npu:0"}) {
      CAPTURE(std::string(where));
      Graph g;
      const Value in = g.input("x", f32, x.shape());
      const Value y = resize(in, {.size = {size.first, size.second}, .mode = "bilinear"});
      Session session(g, device(where));
      const Doubles got = elements(session.run({y}, {{in, x}}).at(0));
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - expected[i]) < 1e-5);
    }
  }
}

TEST_CASE("the gradient of resize adds what was taken") {
  for (const char* where : {"ref:0", "cpu:0", "npu:0"}) {
    CAPTURE(std::string(where));
    const auto gradient_of = [&](const char* mode, int64_t in, const Doubles& weights) {
      Graph g;
      const Value x = g.input("x", f32, {1, 1, in, 1});
      Tensor dy(f32, {1, 1, static_cast<int64_t>(weights.size()), 1});
      for (size_t i = 0; i < weights.size(); ++i) dy.set(static_cast<int64_t>(i), weights[i]);
      const Value y = resize(x, {.size = {1, dy.num_elements()}, .mode = mode});
      Session session(g, device(where));
      const Value dx = gradients(sum(y * g.constant(dy)), {x})[0];
      return elements(session.run({dx}, {{x, counting({1, 1, in, 1})}}).at(0));
    };
    CHECK(gradient_of("nearest", 2, {1, 2, 4, 8}) == Doubles{3, 12});
    CHECK(gradient_of("nearest", 4, {1, 2}) == Doubles{0, 1, 0, 2});
    CHECK(gradient_of("bilinear", 2, {4, 8, 16, 32}) == Doubles{4 + 6 + 4, 2 + 12 + 32});
    CHECK(gradient_of("bilinear", 3, {1, 2, 4}) == Doubles{1, 2, 4});
  }
}

TEST_CASE("resize keeps its dtype and the other axes and refuses what it cannot do") {
  Graph g;
  const Value x = g.input("x", u8, {-1, 3, -1, 8});
  CHECK(resize(x, {.size = {4}}).type() == Type{u8, {-1, 4, 4, 8}});
  CHECK(resize(x, {.size = {6, 5}, .layout = "NCHW"}).type() == Type{u8, {-1, 3, 6, 5}});
  const auto refused = [&](const Value& v, ResizeAttributes options) {
    return error_of([&] { resize(v, std::move(options)); });
  };
  CHECK(contains(refused(x, {.size = {4}, .mode = "bilinear"}), "a float dtype"));
  CHECK(contains(refused(x, {.size = {4}, .mode = "cubic"}), "nearest or bilinear"));
  CHECK(contains(refused(x, {}), "size: expected 2 numbers"));
  CHECK(contains(refused(x, {.size = {-1, 2}}), "of at least 0"));
  CHECK(contains(refused(x, {.size = {4}, .layout = "HWC"}), "NHWC or NCHW"));
  CHECK(contains(refused(g.input("flat", f32, {3, 4, 5}), {.size = {4}}), "rank 4"));
  const std::string empty = refused(g.input("empty", f32, {1, 0, 4, 1}), {.size = {4}});
  CHECK(contains(empty, "an image with elements"));
  CHECK(contains(empty, "test_ops_resize.cpp:"));
  CHECK(contains(refused(g.input("f", f32, {1, 4, 4, 1}), {.size = {int64_t{1} << 61, 1}}),
                 "does not fit in 64 bits"));
}

}  // namespace

TEST_SUITE_END();
