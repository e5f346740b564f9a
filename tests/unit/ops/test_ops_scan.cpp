// cumsum, cumprod, sort, top_k: expected values by hand and by plain loops.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gradients_for_tests.h"
#include "unit/ops/not_finite_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

TEST_CASE("cumsum and cumprod along either axis and exclusive and in reverse") {
  Graph g;
  const Value x = g.constant(Tensor::of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6}));
  CHECK(elements(cumsum(x)) == Doubles{1, 3, 6, 4, 9, 15});
  CHECK(elements(cumsum(x, 0)) == Doubles{1, 2, 3, 5, 7, 9});
  CHECK(elements(cumsum(x, 1, {.exclusive = true})) == Doubles{0, 1, 3, 0, 4, 9});
  CHECK(elements(cumsum(x, 1, {.reverse = true})) == Doubles{6, 5, 3, 15, 11, 6});
  CHECK(elements(cumsum(x, 1, {.exclusive = true, .reverse = true})) == Doubles{5, 3, 0, 11, 6, 0});
  CHECK(elements(cumprod(x)) == Doubles{1, 2, 6, 4, 20, 120});
  CHECK(elements(cumprod(x, -1, {.exclusive = true})) == Doubles{1, 1, 2, 1, 4, 20});
  CHECK(elements(cumprod(x, 0, {.exclusive = true, .reverse = true})) == Doubles{4, 5, 6, 1, 1, 1});
  const Value bytes = g.constant(Tensor::of<uint8_t>({3}, {200, 100, 1}));
  CHECK(elements(cumsum(bytes)) == Doubles{200, 44, 45});
}

TEST_CASE("scans pass NaN and infinities on and not back on every backend") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {-1});
    Session session(g, device(backend));
    const Tensor t = Tensor::of<float>({5}, {1, INFINITY, 2, NAN, 3});
    const Doubles sums = elements(session.run(cumsum(x), {{x, t}}));
    CHECK(sums[0] == 1);
    CHECK(sums[1] == INFINITY);
    CHECK(sums[2] == INFINITY);
    CHECK(std::isnan(sums[3]));
    CHECK(std::isnan(sums[4]));
    // 2,048 ones of f16 are counted, which sums in f16 would not get beyond.
    const Value ones = g.input("ones", f16, {-1});
    const Tensor counts = session.run(cumsum(ones), {{ones, Tensor::full(f16, {4096}, 1)}});
    CHECK(counts.at(4095) == 4096);
    CHECK(counts.at(3000) == 3000);
  }
}

// Returns what cumsum or cumprod of a line gives, by a plain loop in double that rounds each result
// once.
Tensor scanned(const Tensor& x, size_t axis, ScanOptions options, bool product) {
  Tensor result(x.dtype(), x.shape());
  const int64_t count = x.shape()[axis], stride = x.shape().strides()[axis];
  for (int64_t line = 0; line < x.num_elements() / count; ++line) {
    const int64_t first = line / stride * stride * count + line % stride;
    double total = product ? 1 : 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = first + (options.reverse ? count - 1 - i : i) * stride;
      const double next = product ? total * x.at(at) : total + x.at(at);
      result.set(at, options.exclusive ? total : next);
      total = next;
    }
  }
  return result;
}

TEST_CASE("scans of many lines have the bits of a plain loop in double on every backend") {
  // Lines along the last axis and lines that alternate, more of them than go together.
  const Shape shape{3, 67, 131};
  for (const DType dtype : {f32, f16, bf16, i32, u8}) {
    CAPTURE(name_of(dtype));
    Tensor t(dtype, shape);
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.set(i, is_float(dtype) ? 0.9 + static_cast<double>(i * 37 % 101) / 500.0 : double(i % 2));
    for (const std::string& backend : backend_names()) {
      CAPTURE(backend);
      for (int64_t axis = 0; axis < 3; ++axis) {
        CAPTURE(axis);
        for (const ScanOptions options :
             {ScanOptions{}, ScanOptions{true, false}, ScanOptions{false, true}}) {
          Graph g;
          const Value x = g.input("x", dtype, shape);
          Session session(g, device(backend));
          const auto got =
              session.run({cumsum(x, axis, options), cumprod(x, axis, options)}, {{x, t}});
          CHECK(bit_equal(got[0], scanned(t, static_cast<size_t>(axis), options, false)));
          CHECK(bit_equal(got[1], scanned(t, static_cast<size_t>(axis), options, true)));
        }
      }
    }
  }
}

TEST_CASE("a running count goes on where ones are lost beside a float") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {11});
    Tensor t = Tensor::full(f32, {11}, 1);
    t.set(0, 16777216);
    Session session(g, device(backend));
    CHECK(session.run(cumsum(x), {{x, t}}).at(10) == 16777226);
  }
}

TEST_CASE("gradients of cumprod are right at zeros") {
  Graph g;
  const Value x = g.constant(Tensor::of<double>({4}, {2, 0, 3, 0}));
  // y = x0, x0 x1, x0 x1 x2, x0 x1 x2 x3, summed: by x0 1 + x1 + ..., by x1 x0 (1 + x2 + x2 x3).
  CHECK(elements(gradients(sum(cumprod(x)), {x})[0]) == Doubles{1, 8, 0, 0});
  // d/dx1 of that by x0 and x2.
  const Value slope = slice(gradients(sum(cumprod(x)), {x})[0], {1}, {2});
  CHECK(elements(gradients(sum(slope), {x})[0]) == Doubles{4, 0, 2, 6});
}

TEST_CASE("scans of nothing and of what is no axis") {
  Graph g;
  CHECK(elements(cumsum(g.constant(Tensor(f32, {2, 0})))).empty());
  CHECK(elements(cumprod(g.constant(Tensor(f32, {0, 2})), 0)).empty());
  const Value one = g.constant(Tensor::of<float>({1}, {7}));
  CHECK(elements(cumsum(one, 0, {.exclusive = true})) == Doubles{0});
  CHECK(contains(error_of([&] { cumsum(one, 1); }), "axis"));
  CHECK(contains(error_of([&] { cumprod(g.constant(counting({}))); }), "axis"));
  CHECK(contains(error_of([&] { cumsum(g.constant(Tensor(boolean, {2}))); }), "cast"));
}

TEST_CASE("sort is stable both ways with NaN as the largest") {
  Graph g;
  const Value x = g.constant(Tensor::of<double>({7}, {2, kNaN, -0.0, 2, 0.0, kNaN, -1}));
  const Sorted up = sort(x);
  CHECK(elements(up.indices) == Doubles{6, 2, 4, 0, 3, 1, 5});
  const Doubles values = elements(up.values);
  CHECK(values[0] == -1);
  CHECK(std::signbit(values[1]));
  CHECK_FALSE(std::signbit(values[2]));
  CHECK(values[3] == 2);
  CHECK(std::isnan(values[6]));
  CHECK(elements(sort(x, 0, true).indices) == Doubles{1, 5, 0, 3, 2, 4, 6});
  CHECK(elements(top_k(x, 3).indices) == Doubles{1, 5, 0});
  CHECK(elements(top_k(x, 0).indices).empty());
  CHECK(up.indices.dtype() == i64);
}

TEST_CASE("sort and top_k of many lines agree with std::stable_sort on every backend") {
  const Shape shape{3, 700, 4};
  for (const DType dtype : {f32, f16, i32, u8}) {
    Tensor t(dtype, shape);
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      t.set(i, static_cast<double>((i * i * 7919 + i) % 97));
    }
    for (const std::string& backend : backend_names()) {
      CAPTURE(backend);
      Graph g;
      const Value x = g.input("x", dtype, shape);
      const Sorted down = sort(x, 1, true), top = top_k(x, 5, 1);
      Session session(g, device(backend));
      const auto got = session.run({down.values, down.indices, top.values, top.indices}, {{x, t}});
      int64_t wrong = 0;
      for (int64_t line = 0; line < 12; ++line) {
        const int64_t outer = line / 4, inner = line % 4;
        const auto at = [&](int64_t i, int64_t count) { return (outer * count + i) * 4 + inner; };
        std::vector<int64_t> order(700);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return t.at(at(a, 700)) > t.at(at(b, 700)); });
        for (int64_t i = 0; i < 700; ++i) {
          const int64_t from = order[static_cast<size_t>(i)];
          wrong += got[1].at(at(i, 700)) != static_cast<double>(from);
          wrong += got[0].at(at(i, 700)) != t.at(at(from, 700));
          if (i >= 5) continue;
          wrong += got[3].at(at(i, 5)) != static_cast<double>(from);
          wrong += got[2].at(at(i, 5)) != t.at(at(from, 700));
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("gradients of sorted values go back to where they came from") {
  Graph g;
  const Value x = g.constant(Tensor::of<double>({2, 3}, {3, 1, 2, 4, 6, 5}));
  const Value weights = g.constant(Tensor::of<double>({2, 3}, {10, 20, 30, 40, 50, 60}));
  CHECK(elements(gradients(sum(sort(x).values * weights), {x})[0]) ==
        Doubles{30, 10, 20, 40, 60, 50});
  CHECK(elements(gradients(sum(top_k(x, 1).values), {x})[0]) == Doubles{1, 0, 0, 0, 1, 0});
  CHECK(elements(gradients(sum(top_k(x, 1, 0).values), {x})[0]) == Doubles{0, 0, 0, 1, 1, 1});
}

TEST_CASE("sort and top_k refuse what has no order") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  CHECK(contains(error_of([&] { top_k(x, 4); }), "from 0 to 3"));
  CHECK(contains(error_of([&] { top_k(x, -1); }), "k"));
  CHECK(contains(error_of([&] { sort(x, 2); }), "axis"));
  CHECK(contains(error_of([&] { sort(g.constant(Tensor(boolean, {2}))); }), "cast"));
  CHECK(top_k(x, 2, 0).values.shape() == Shape{2, 3});
  CHECK(contains(error_of([&] {
                   evaluate(top_k(x, 2, 0).values, {{x, Tensor(f32, {1, 3})}});
                 }),
                 "from 0 to 1"));
}

}  // namespace

TEST_SUITE_END();
