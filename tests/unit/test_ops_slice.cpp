// slice, split, pad and concat: expected values by hand, NumPy's rules for bounds.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;
using Doubles = std::vector<double>;

TEST_CASE("slice takes NumPy's bounds") {
  Graph g;
  const Value x = g.constant(counting({7}));
  CHECK(elements(slice(x, {2}, {5})) == Doubles{2, 3, 4});
  CHECK(elements(slice(x, {-3}, {kToEnd})) == Doubles{4, 5, 6});
  CHECK(elements(slice(x, {0}, {-5})) == Doubles{0, 1});
  CHECK(elements(slice(x, {1}, {7}, {3})) == Doubles{1, 4});
  CHECK(elements(slice(x, {0}, {100}, {2})) == Doubles{0, 2, 4, 6});
  CHECK(elements(slice(x, {-100}, {2})) == Doubles{0, 1});
  CHECK(elements(slice(x, {5}, {3})).empty());
  CHECK(elements(slice(x, {9}, {12})).empty());
}

TEST_CASE("slice leaves the axes it does not name") {
  Graph g;
  const Value x = g.constant(counting({3, 4}));
  CHECK(elements(slice(x, {1}, {2})) == Doubles{4, 5, 6, 7});
  CHECK(elements(slice(x, {0, 1}, {3, 4}, {2, 2})) == Doubles{1, 3, 9, 11});
  const Value batch = g.input("batch", f32, {-1, 4});
  const Value y = slice(batch, {1, 1}, {kToEnd, 3});
  CHECK(y.shape() == Shape{-1, 2});
  CHECK(elements(y, {{batch, counting({2, 4})}}) == Doubles{5, 6});
  CHECK(contains(error_of([&] { slice(x, {0, 0, 0}, {1}); }), "at most 2 numbers"));
  CHECK(contains(error_of([&] { slice(x, {0}, {1}, {0}); }), "strides >= 1"));
}

TEST_CASE("slice with strides passes gradients back to the elements it took") {
  Graph g;
  const Value x = g.constant(counting({7}));
  const Value weights = g.constant(Tensor::of<float>({2}, {5, 7}));
  CHECK(elements(gradients(sum(slice(x, {1}, {7}, {3}) * weights), {x})[0]) ==
        Doubles{0, 5, 0, 0, 7, 0, 0});
  const Value z = g.constant(counting({3, 4}));
  const Value four = g.constant(Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  CHECK(elements(gradients(sum(slice(z, {0, 1}, {3, 4}, {2, 2}) * four), {z})[0]) ==
        Doubles{0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4});
  CHECK(elements(gradients(sum(slice(x, {5}, {5})), {x})[0]) == Doubles(7, 0.0));
}

TEST_CASE("split cuts into equal or given sizes") {
  Graph g;
  const Value x = g.constant(counting({2, 6}));
  const Values halves = split(x, 2, 1);
  REQUIRE(halves.size() == 2);
  CHECK(elements(halves[0]) == Doubles{0, 1, 2, 6, 7, 8});
  CHECK(elements(halves[1]) == Doubles{3, 4, 5, 9, 10, 11});
  const Values parts = split_sizes(x, {1, 0, 5}, -1);
  REQUIRE(parts.size() == 3);
  CHECK(elements(parts[0]) == Doubles{0, 6});
  CHECK(parts[1].shape() == Shape{2, 0});
  CHECK(elements(parts[2]) == Doubles{1, 2, 3, 4, 5, 7, 8, 9, 10, 11});
  CHECK(contains(error_of([&] { split(x, 4, 1); }), "a divisor of 6"));
  CHECK(contains(error_of([&] { split(x, 0, 1); }), "0 parts"));
  CHECK(contains(error_of([&] { split(x, 2, 2); }), "an axis of x"));
  CHECK(contains(error_of([&] { split_sizes(x, {1, 2}, 1); }), "add up to 6"));
  CHECK(contains(error_of([&] { split_sizes(x, {-1, 7}, 1); }), "a negative size"));
  const Value batch = g.input("batch", f32, {-1});
  CHECK(contains(error_of([&] { split(batch, 2); }), "known dimension"));
}

TEST_CASE("pad surrounds with a value") {
  Graph g;
  const Value x = g.constant(counting({2, 2}));
  const Value y = pad(x, {1, 0}, {0, 2}, -1);
  CHECK(elements(y) == Doubles{-1, -1, -1, -1, 0, 1, -1, -1, 2, 3, -1, -1});
  const Value weights = g.constant(counting({3, 4}));
  CHECK(elements(gradients(sum(y * weights), {x})[0]) == Doubles{4, 5, 8, 9});
  const Value bytes = g.constant(counting({2}, u8));
  CHECK(elements(pad(bytes, {1}, {0}, 255)) == Doubles{255, 0, 1});
  CHECK(contains(error_of([&] { pad(bytes, {1}, {0}, 256); }), "a number that fits u8"));
  CHECK(contains(error_of([&] { pad(bytes, {1}, {0}, 0.5); }), "a number that fits u8"));
  CHECK(contains(error_of([&] { pad(x, {-1, 0}, {0, 0}); }), "cut with slice"));
  CHECK(contains(error_of([&] { pad(x, {1}, {0}); }), "at most 2 numbers"));
}

TEST_CASE("concat joins along an axis") {
  Graph g;
  const Value a = g.constant(counting({2, 1}));
  const Value b = g.constant(counting({2, 2}));
  CHECK(elements(concat({a, b}, 1)) == Doubles{0, 0, 1, 1, 2, 3});
  CHECK(elements(concat({b, b}, -2)) == Doubles{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(elements(concat({a})) == Doubles{0, 1});
  const Value batch = g.input("batch", f32, {-1, 2});
  CHECK(concat({b, batch}).shape() == Shape{-1, 2});
  CHECK(concat({batch, b}, 1).shape() == Shape{2, 4});
  const Value weights = g.constant(counting({2, 3}));
  const Values grads = gradients(sum(concat({a, b}, 1) * weights), {a, b});
  CHECK(elements(grads[0]) == Doubles{0, 3});
  CHECK(elements(grads[1]) == Doubles{1, 2, 4, 5});
}

TEST_CASE("concat refuses what does not fit") {
  Graph g;
  const Value a = g.constant(counting({2, 1}));
  const Value wide = g.constant(counting({3, 2}));
  CHECK(contains(error_of([&] { concat({a, wide}, 1); }), "only the axis of concatenation"));
  CHECK(contains(error_of([&] { concat({a, g.constant(counting({2}))}, 1); }), "rank 2"));
  CHECK(contains(error_of([&] { concat({a, g.constant(counting({2, 1}, f64))}, 1); }), "cast"));
  CHECK(contains(error_of([&] { concat({a, a}, 2); }), "an axis from -2 to 1"));
  CHECK_FALSE(error_of([&] { concat({}); }).empty());
}

}  // namespace

TEST_SUITE_END();
