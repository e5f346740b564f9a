// reshape, squeeze, expand_dims, transpose, broadcast_to: expected values by hand, NumPy's rules.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

TEST_CASE("reshape keeps the row-major order and works out one dimension") {
  Graph g;
  const Value x = g.constant(counting({2, 6}));
  const Value y = reshape(x, {3, -1});
  CHECK(y.shape() == Shape{3, 4});
  CHECK(elements(y) == Doubles{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(reshape(x, {12}).shape() == Shape{12});
  CHECK(reshape(g.constant(counting({1, 1})), Shape{}).shape() == Shape{});
  CHECK(reshape(g.constant(Tensor(f32, {0, 3})), {3, -1}).shape() == Shape{3, 0});
}

TEST_CASE("reshape passes unknown dimensions on until the run") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 6});
  const Value y = reshape(x, {-1, 2, 3});
  CHECK(y.shape() == Shape{-1, 2, 3});
  CHECK(evaluate(y, {{x, counting({4, 6})}}).shape() == Shape{4, 2, 3});
  CHECK(contains(error_of([&] { reshape(x, {5, 2}); }), "as many elements as x of shape [?, 6]"));
  const Value two = reshape(x, {12});
  CHECK(evaluate(two, {{x, counting({2, 6})}}).shape() == Shape{12});
  CHECK(contains(error_of([&] { evaluate(two, {{x, counting({3, 6})}}); }), "reshape: shape"));
}

TEST_CASE("reshape refuses what does not fit and names the line") {
  Graph g;
  const Value x = g.constant(counting({2, 6}));
  const std::string text = error_of([&] { reshape(x, {5, 2}); });
  CHECK(contains(text, "reshape: shape"));
  CHECK(contains(text, "[2, 6]"));
  CHECK(contains(text, "[5, 2]"));
  CHECK(contains(text, "test_ops_shape.cpp:" + std::to_string(__LINE__ - 4)));
  CHECK(contains(error_of([&] { reshape(x, {-1, -1}); }), "at most one -1"));
  CHECK(contains(error_of([&] { reshape(x, {5, -1}); }), "as many elements"));
  const Value empty = g.constant(Tensor(f32, {0, 3}));
  CHECK(contains(error_of([&] { reshape(empty, {0, -1}); }), "give every dimension"));
  CHECK(contains(error_of([&] { reshape(x, {int64_t{1} << 40, int64_t{1} << 40}); }), "64 bits"));
}

TEST_CASE("squeeze and expand_dims drop and insert dimensions of 1") {
  Graph g;
  const Value x = g.input("x", f32, {1, -1, 1, 3});
  CHECK(squeeze(x).shape() == Shape{-1, 3});
  CHECK(squeeze(x, {0}).shape() == Shape{-1, 1, 3});
  CHECK(squeeze(x, {-2, 0}).shape() == Shape{-1, 3});
  CHECK(expand_dims(squeeze(x), {0, -1}).shape() == Shape{1, -1, 3, 1});
  CHECK(evaluate(squeeze(x), {{x, counting({1, 2, 1, 3})}}).shape() == Shape{2, 3});
  CHECK(squeeze(g.constant(counting({2}))).shape() == Shape{2});
  CHECK(contains(error_of([&] { squeeze(x, {3}); }), "axis 3 of [1, ?, 1, 3]"));
  CHECK(contains(error_of([&] { squeeze(x, {4}); }), "an axis from 0 to 3"));
  CHECK(contains(error_of([&] { squeeze(x, {0, 0}); }), "axis 0 twice"));
  CHECK(contains(error_of([&] { expand_dims(x, {-6}); }), "also take -5 to -1"));
  CHECK(contains(error_of([&] { expand_dims(x, {0, 1, 2, 3, 4}); }), "rank at most 8"));
}

TEST_CASE("transpose permutes axes") {
  Graph g;
  const Value x = g.constant(counting({2, 3}));
  CHECK(elements(transpose(x)) == Doubles{0, 3, 1, 4, 2, 5});
  const Value y = transpose(g.constant(counting({2, 1, 3})), {1, -1, 0});
  CHECK(y.shape() == Shape{1, 3, 2});
  CHECK(elements(y) == Doubles{0, 3, 1, 4, 2, 5});
  CHECK(transpose(g.constant(counting({}))).shape() == Shape{});
  CHECK(contains(error_of([&] { transpose(x, {0, 0}); }), "each of the 2 axes of x once"));
  CHECK(contains(error_of([&] { transpose(x, {0}); }), "got {0}"));
  CHECK(contains(error_of([&] { transpose(x, {0, 2}); }), "got {0, 2}"));
}

TEST_CASE("broadcast_to repeats as NumPy does") {
  Graph g;
  const Value x = g.constant(counting({2, 1}));
  const Value y = broadcast_to(x, {2, 2, 3});
  CHECK(elements(y) == Doubles{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
  CHECK(elements(gradients(sum(y), {x})[0]) == Doubles{6, 6});
  const Value batch = g.input("batch", f32, {-1, 1});
  CHECK(broadcast_to(batch, {-1, 4}).shape() == Shape{-1, 4});
  CHECK(evaluate(broadcast_to(batch, {-1, 4}), {{batch, counting({3, 1})}}).shape() == Shape{3, 4});
  CHECK(contains(error_of([&] { broadcast_to(x, {3, 3}); }), "[2, 1] broadcasts to"));
  CHECK(contains(error_of([&] { broadcast_to(x, {2}); }), "rank of at least 2"));
  CHECK(contains(error_of([&] { broadcast_to(x, {-1, 2, 3}); }), "new leading axes"));
}

TEST_CASE("views and transposes pass gradients back in place") {
  Graph g;
  const Value x = g.constant(counting({2, 3}));
  const Value weights = g.constant(Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  CHECK(elements(gradients(sum(transpose(x) * weights), {x})[0]) == Doubles{1, 3, 5, 2, 4, 6});
  CHECK(elements(gradients(sum(reshape(x, {3, 2}) * weights), {x})[0]) ==
        Doubles{1, 2, 3, 4, 5, 6});
}

}  // namespace

TEST_SUITE_END();
